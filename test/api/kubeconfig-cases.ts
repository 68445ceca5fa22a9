/** What the API server gets; `path` without the path that was asked for. */
export interface Sent {
  readonly path?: string;
  readonly authorization?: string;
  /** Headers that begin with "impersonate-"; several values are joined. */
  readonly impersonation?: Readonly<Record<string, string>>;
  /** The value of KUBERNETES_EXEC_INFO, which plugin.sh returns as the token. */
  readonly pluginInfo?: unknown;
}

/** A kubeconfig, and what kubectl 1.37.2 does with it. */
export interface KubeconfigCase {
  readonly name: string;
  /** SERVER, HOST and CA are replaced. The folder has plugin.sh, no-status.sh, ca.crt and "token" with the text "from-file". */
  readonly text: string;
  readonly sent?: Sent;
  /** Our error, if nothing is sent. */
  readonly error?: RegExp;
  /** What kubectl sends, if it differs. It refuses what we refuse. */
  readonly kubectl?: Sent | 'refused';
}

const CLUSTER = 'clusters: [{ name: c, cluster: { server: "SERVER", certificate-authority: ca.crt } }]';
const CONTEXT = 'current-context: x\ncontexts: [{ name: x, context: { cluster: c, user: u } }]';
const V1 = 'client.authentication.k8s.io/v1';

function config(user: string, cluster = CLUSTER): string {
  return `apiVersion: v1\nkind: Config\n${CONTEXT}\n${cluster}\nusers: [{ name: u, user: { ${user} } }]\n`;
}

function plugin(fields: string): string {
  return `exec: { apiVersion: ${V1}, interactiveMode: Never, ${fields} }`;
}

function basic(user: string): string {
  return `Basic ${Buffer.from(user).toString('base64')}`;
}

const INFO = { kind: 'ExecCredential', apiVersion: V1, spec: { interactive: false } };
const TOKEN: Sent = { authorization: 'Bearer t' };

export const KUBECONFIG_CASES: readonly KubeconfigCase[] = [
  { name: 'a token', text: config('token: t'), sent: TOKEN },
  {
    name: 'a token file relative to the kubeconfig',
    text: config('tokenFile: token'),
    sent: { authorization: 'Bearer from-file' },
  },
  {
    name: 'a token file has priority over a token',
    text: config('token: t, tokenFile: token'),
    sent: { authorization: 'Bearer from-file' },
  },
  { name: 'user and password', text: config('username: a, password: b'), sent: { authorization: basic('a:b') } },
  { name: 'a key twice: the last value', text: `kind: Config\n${config('token: t')}`, sent: TOKEN },
  { name: 'a second document, empty', text: `${config('token: t')}---\n`, sent: TOKEN },
  { name: 'a second document', text: `---\n${config('token: t')}---\nkind: Other\n`, sent: TOKEN },
  {
    name: 'entries that nothing uses: without a server, of nothing, with a missing token file',
    text: config('token: t')
      .replace('clusters: [', 'clusters: [null, { name: other }, { name: bad, cluster: {} }, ')
      .replace('contexts: [', 'contexts: [null, { name: other }, ')
      .replace(
        'users: [',
        'users: [null, { name: other, user: { tokenFile: missing, token-file: missing } }, { name: none, user: null }, ',
      ),
    sent: TOKEN,
  },
  {
    name: 'a name twice',
    text: config('token: t').replace('users: [', 'users: [{ name: u }, '),
    error: /has two users with the name "u": delete one/,
  },
  {
    name: 'a token that is a number',
    text: config('token: 123'),
    error: /has a value of "token" that is not text: put it in quotes/,
  },
  {
    name: 'a cluster without a server',
    text: config('token: t', 'clusters: [{ name: c, cluster: { tls-server-name: x } }]'),
    error: /has no server in cluster "c"/,
  },
  {
    name: 'a cluster of nothing',
    text: config('token: t', 'clusters: [{ name: c, cluster: null }]'),
    error: /has no server in cluster "c"/,
  },
  {
    name: 'a path in the URL',
    text: config('token: t').replace('SERVER', 'SERVER/prefix/'),
    sent: { ...TOKEN, path: '/prefix' },
  },
  { name: 'a query in the URL', text: config('token: t').replace('SERVER', 'SERVER?x=y#z'), sent: TOKEN },
  {
    name: 'a path and a query in the URL',
    text: config('token: t').replace('SERVER', 'SERVER/prefix?x=y'),
    sent: { ...TOKEN, path: '/prefix' },
  },
  {
    name: 'credentials in the URL',
    text: config('').replace('SERVER', 'https://a:b%40c@HOST'),
    // kubectl asks for a user name.
    kubectl: 'refused',
    sent: { authorization: basic('a:b@c') },
  },
  {
    name: 'credentials in the URL, and a token',
    text: config('token: t').replace('SERVER', 'https://a:b@HOST'),
    sent: { authorization: basic('a:b') },
  },
  {
    name: 'impersonation',
    text: config('token: t, as: a, as-uid: "42", as-groups: [g, h], as-user-extra: { "Re(a)son/é": [why, not] }'),
    sent: {
      ...TOKEN,
      impersonation: {
        'impersonate-user': 'a',
        'impersonate-uid': '42',
        'impersonate-group': 'g, h',
        'impersonate-extra-re%28a%29son%2f%c3%a9': 'why, not',
      },
    },
  },
  {
    name: 'groups without a user to act as',
    text: config('token: t, as-groups: [g]'),
    error: /without "as" for user "u": add the user to act as/,
  },
  {
    name: 'an exec plugin relative to the kubeconfig',
    text: config(plugin('command: ./plugin.sh')),
    sent: { pluginInfo: INFO },
  },
  {
    name: 'an exec plugin in a folder below',
    text: config(plugin('command: below/plugin.sh')),
    sent: { pluginInfo: INFO },
  },
  {
    name: 'an exec plugin from PATH, with arguments and a variable',
    text: config(plugin('command: sh, args: ["-c", "exec ./plugin.sh", x], env: [{ name: A, value: b }]')),
    sent: { pluginInfo: INFO },
  },
  {
    name: 'an exec plugin that gets the cluster',
    text: config(
      plugin('command: ./plugin.sh, provideClusterInfo: true'),
      `clusters: [{ name: c, cluster: { server: "SERVER", certificate-authority: ca.crt, tls-server-name: localhost, disable-compression: true, extensions: [{ name: other, extension: 1 }, { name: client.authentication.k8s.io/exec, extension: { audience: abc } }] } }]`,
    ),
    sent: {
      pluginInfo: {
        ...INFO,
        spec: {
          interactive: false,
          cluster: {
            server: 'SERVER',
            'certificate-authority-data': 'CA',
            'tls-server-name': 'localhost',
            'disable-compression': true,
            config: { audience: 'abc' },
          },
        },
      },
    },
  },
  {
    name: 'an exec plugin that gets the cluster, without extensions',
    text: config(plugin('command: ./plugin.sh, provideClusterInfo: true')),
    sent: {
      pluginInfo: {
        ...INFO,
        spec: { interactive: false, cluster: { server: 'SERVER', 'certificate-authority-data': 'CA', config: null } },
      },
    },
  },
  {
    name: 'an exec plugin of v1beta1',
    text: config(
      'exec: { apiVersion: client.authentication.k8s.io/v1beta1, command: ./plugin.sh, env: null, args: null }',
    ),
    sent: { pluginInfo: { ...INFO, apiVersion: `${V1}beta1` } },
  },
  {
    name: 'an exec plugin of v1alpha1',
    text: config('exec: { apiVersion: client.authentication.k8s.io/v1alpha1, command: ./plugin.sh }'),
    error: /apiVersion "client.authentication.k8s.io\/v1alpha1"/,
  },
  {
    name: 'an exec plugin without a command',
    text: config(plugin('args: []')),
    error: /has an exec plugin without a command for user "u"/,
  },
  {
    name: 'an exec plugin that needs a terminal',
    text: config(`exec: { apiVersion: ${V1}, interactiveMode: Always, command: ./plugin.sh }`),
    error: /a daemon has no terminal/,
  },
  {
    name: 'a token has priority over an exec plugin',
    text: config(`token: t, ${plugin('command: ./missing')}`),
    sent: TOKEN,
  },
  {
    name: 'an exec plugin that does not exist',
    text: config(plugin('command: ./missing')),
    error: /exec plugin \/.*\/missing: .*ENOENT/,
  },
  {
    name: 'an exec plugin that fails',
    text: config(plugin('command: sh, args: ["-c", "echo no network >&2; exit 3"]')),
    error: /exec plugin sh: no network$/,
  },
  {
    name: 'an exec plugin without a status',
    text: config(
      plugin(
        'command: echo, args: [\'{ "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1" }\']',
      ),
    ),
    error: /exec plugin echo: it returned no ExecCredential with a token or a certificate/,
  },
  {
    name: 'an exec plugin with an empty status',
    text: config(
      plugin(
        'command: echo, args: [\'{ "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {} }\']',
      ),
    ),
    error: /exec plugin echo: it returned no ExecCredential/,
  },
  {
    name: 'an exec plugin that prints nothing',
    text: config(plugin('command: "true"')),
    error: /exec plugin true: it returned no ExecCredential/,
  },
  {
    name: 'plain HTTP to a loopback address',
    text: config('token: t').replace('SERVER', 'http://PLAIN'),
    sent: TOKEN,
    kubectl: {},
  },
  {
    name: 'plain HTTP to another address',
    text: config('token: t').replace('SERVER', 'http://192.0.2.1:8080'),
    error: /192\.0\.2\.1:8080 would get our credentials without encryption: write https:\/\//,
  },
];
