import { describe, expect, test } from '@jest/globals';
import { clusterImages } from '../../cluster/images/list.ts';
import { namesOf, upstreamImages } from '../../cluster/images/upstream-images.ts';

/** In the form of test/utils/image/manifest.go. */
const TABLE = `
	initRegistry = RegistryList{
		PromoterE2eRegistry:      "registry.example/tests",
		GcRegistry:               "registry.example",
	}
func initImageConfigs(list RegistryList) (map[ImageID]Config, map[ImageID]Config) {
	configs[AgnhostPrev] = Config{list.PromoterE2eRegistry, "agnhost", "2.1"}
	configs[Agnhost] = Config{list.PromoterE2eRegistry, "agnhost", "2.2"}
	configs[BusyBox] = Config{list.PromoterE2eRegistry, "busybox", "1"}
	configs[DistrolessIptables] = Config{list.PromoterE2eRegistry, "iptables", "1"}
	configs[JessieDnsutils] = Config{list.PromoterE2eRegistry, "dnsutils", "1"}
	configs[Nginx] = Config{list.PromoterE2eRegistry, "nginx", "1"}
	configs[NginxNew] = Config{list.PromoterE2eRegistry, "nginx", "2"}
	configs[RegressionIssue74839] = Config{list.PromoterE2eRegistry, "regression", "1"}
	configs[Pause] = Config{list.GcRegistry, "pause", "3.11"}
`;

describe("upstream's table of test images", () => {
  test('gives the full name of each image by its identifier', () => {
    const images = upstreamImages(TABLE);
    expect(namesOf(images, ['Pause', 'Agnhost'])).toEqual([
      'registry.example/pause:3.11',
      'registry.example/tests/agnhost:2.2',
    ]);
    expect(images.size).toBe(9);
  });

  test('an identifier that it does not have is an error', () => {
    expect(() => namesOf(upstreamImages(TABLE), ['Perl'])).toThrow('the table of test images has no Perl');
  });

  test('a registry that it does not define is an error', () => {
    const row = 'configs[Pause] = Config{list.OtherRegistry, "pause", "1"}';
    expect(() => upstreamImages(row)).toThrow('unknown registry: OtherRegistry');
  });
});

describe('the images of the test cluster', () => {
  const namesFrom = (table: string): string[] => {
    const archives = clusterImages({
      bin: '/bin-folder',
      agnhost: '/agnhost',
      debian: '/debian',
      pause: '/pause',
      ours: '/ours.tar',
      kubernetesVersion: '1.35.4',
      corednsVersion: '1.12.1',
      upstream: upstreamImages(table),
    });
    return Object.values(archives).flatMap((images) => images.flatMap((image) => image.names));
  };
  const names = namesFrom(TABLE);

  test('have the versions of their sources', () => {
    expect(names).toEqual(
      expect.arrayContaining([
        'registry.example/pause:3.11',
        'registry.example/tests/agnhost:2.1',
        'registry.k8s.io/coredns/coredns:v1.12.1',
        'registry.k8s.io/kube-proxy:v1.35.4',
      ]),
    );
  });

  test('no name is given twice', () => {
    expect(new Set(names).size).toBe(names.length);
  });

  test('the image for DNS has another name since Kubernetes 1.37', () => {
    const renamed = TABLE.replace('JessieDnsutils', 'GlibcDnsTesting').replace('dnsutils', 'glibc-dns-testing');
    expect(names).toContain('registry.example/tests/dnsutils:1');
    expect(namesFrom(renamed)).toContain('registry.example/tests/glibc-dns-testing:1');
  });

  test('agnhost has one version before Kubernetes 1.35', () => {
    const one = namesFrom(TABLE.replace(/.*AgnhostPrev.*\n/, ''));
    expect(one.filter((name) => name.includes('agnhost'))).toEqual(['registry.example/tests/agnhost:2.2']);
  });
});
