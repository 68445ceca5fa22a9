// Packs the images of the test cluster that are missing or whose sources have changed:
//   node lab/cluster/images/main.ts KUBERNETES FOLDER
// KUBERNETES is a version such as 1.35.4. The archive of this checkout's image goes to FOLDER, the others to the cache.
import { homedir } from 'node:os';
import path from 'node:path';
import { packClusterImages } from './cluster-images.ts';

const [kubernetes, ours] = process.argv.slice(2);
if (kubernetes === undefined || ours === undefined) throw new Error('usage: main.ts KUBERNETES FOLDER');
const cache = path.join(process.env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'kube-ipvs-proxy');
for (const archive of await packClusterImages(kubernetes, { cache, ours })) process.stdout.write(`packed ${archive}\n`);
