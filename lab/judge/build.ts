// `make judge-build`: builds kube-proxy's proxiers.
import { buildUpstream, kubernetesVersion } from './upstream.ts';

const program = await buildUpstream();
process.stdout.write(`kube-proxy's proxiers, Kubernetes ${await kubernetesVersion()}: built in ${program}\n`);
