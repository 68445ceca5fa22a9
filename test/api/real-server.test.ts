import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { kubeconfig } from '../apiserver/kubeconfig.ts';
import { RealApiServer } from '../apiserver/real-api-server.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, node, service, slice } from './harness.ts';

jest.setTimeout(120_000);

const assets = process.env['KUBEBUILDER_ASSETS'];

/** Against etcd and kube-apiserver of the folder KUBEBUILDER_ASSETS. Objects of one test stay for the next. */
function againstTheRealServer(folder: string): void {
  describe('the real API server', () => {
    let started: RealApiServer | undefined;
    let server: RealApiServer;
    let directory: string;
    const headless = service('z', 'None');

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'real-server-'));
      server = started = await RealApiServer.start(folder, { stranger: 'stranger' });
      for (const [i, name] of ['a', 'b', 'c', 'd', 'e'].entries())
        await server.create(service(name, `10.96.1.${i + 1}`));
      await server.create(headless);
      await server.create(service('y', '10.96.1.9', { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } }));
      await server.create(slice('a', ['10.0.0.1']));
      await server.create(node('node-1'));
      await server.create(node('node-2'));
    });

    afterAll(async () => {
      await started?.stop();
      await rm(directory, { recursive: true, force: true });
    });

    async function following(token: string, act: (bed: Bed) => Promise<void>, watchSeconds = 300): Promise<void> {
      const bed = new Bed();
      await bed.server.start();
      const path = join(directory, 'kubeconfig');
      const cluster = { 'certificate-authority': server.caFile };
      await writeFile(path, kubeconfig({ server: server.url, cluster, user: { token } }));
      bed.follow({ watchSeconds: [watchSeconds, watchSeconds], listIdleMs: 10_000 }, { kubeconfig: path });
      try {
        await act(bed);
      } finally {
        await bed.stop();
      }
    }

    const named = (bed: Bed): string =>
      bed.view
        .names('service')
        .split(' ')
        .filter((name) => name !== 'kubernetes')
        .join(' ');

    test('list, selectors, and changes each once', async () => {
      await following('admin', async (bed) => {
        await eventually(() => expect(named(bed)).toBe('a b c d e'), 20_000);
        await eventually(() => expect(bed.view.names('node')).toBe('node-1'), 20_000);
        await eventually(() => expect(bed.view.of('endpoint-slice').join()).toContain('default/a@'), 20_000);
        await server.create(service('f', '10.96.1.6'));
        await server.delete(service('b', ''));
        await eventually(() => expect(named(bed)).toBe('a c d e f'), 20_000);
      });
    });

    test('a watch that the server ends is resumed, without a second list', async () => {
      await following(
        'admin',
        async (bed) => {
          await eventually(() => expect(named(bed)).toBe('a c d e f'), 20_000);
          await eventually(() => expect(bed.source?.status[0]?.watches).toBeGreaterThan(2), 20_000);
          await server.create(service('g', '10.96.1.7'));
          await eventually(() => expect(named(bed)).toBe('a c d e f g'), 20_000);
          expect(bed.view.types('service').filter((type) => type === 'replaced')).toHaveLength(1);
        },
        1,
      );
    });

    test.each([
      ['wrong', /does not accept our credentials \(401/],
      ['stranger', /does not allow us to list and watch services \(403/],
    ])('token "%s"', async (token, sentence) => {
      await following(token, async (bed) => {
        await eventually(() => expect(bed.log.messages('error').join()).toMatch(sentence), 20_000);
      });
    });
  });
}

if (assets === undefined || assets === '') {
  // Not a pass: nothing was tried.
  test.todo('KUBEBUILDER_ASSETS is not set: the real API server was not tried');
} else {
  againstTheRealServer(assets);
}
