/**
 * As kube-proxy in iptables mode writes default/web, a Service with an external IP and a node port, and a Service without
 * endpoints, beside the chain of one that is gone: input for iptables-restore.
 */
export const OF_KUBE_PROXY = `*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-I INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-I OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.99/32 -p tcp -m comment --comment "default/empty:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:KUBE-EXT-TTTTTTTTTTTTTTTT - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-FFFFFFFFFFFFFFFF - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-VVVVVVVVVVVVVVVV - [0:0]
:KUBE-SVL-LLLLLLLLLLLLLLLL - [0:0]
:KUBE-SVC-GONEGONEGONEGONE - [0:0]
-I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-EXT-TTTTTTTTTTTTTTTT -s 10.244.0.0/16 -m comment --comment "pod traffic for default/web:http external destinations" -j KUBE-SVC-VVVVVVVVVVVVVVVV
-A KUBE-EXT-TTTTTTTTTTTTTTTT -m comment --comment "masquerade LOCAL traffic for default/web:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-EXT-TTTTTTTTTTTTTTTT -j KUBE-SVL-LLLLLLLLLLLLLLLL
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SEP-FFFFFFFFFFFFFFFF -s 10.244.0.5/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-FFFFFFFFFFFFFFFF -p tcp -m comment --comment "default/web:http" -m tcp -j DNAT --to-destination 10.244.0.5:8080
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-VVVVVVVVVVVVVVVV
-A KUBE-SERVICES -d 203.0.113.1/32 -p tcp -m comment --comment "default/web:http external IP" -m tcp --dport 80 -j KUBE-EXT-TTTTTTTTTTTTTTTT
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j KUBE-EXT-TTTTTTTTTTTTTTTT
-A KUBE-SVC-VVVVVVVVVVVVVVVV -m comment --comment "default/web:http -> 10.244.0.5:8080" -j KUBE-SEP-FFFFFFFFFFFFFFFF
-A KUBE-SVL-LLLLLLLLLLLLLLLL -m comment --comment "default/web:http -> 10.244.0.5:8080" -j KUBE-SEP-FFFFFFFFFFFFFFFF
COMMIT
`;
