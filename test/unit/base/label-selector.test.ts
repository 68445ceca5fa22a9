import { expect, test } from '@jest/globals';
import { parseLabelSelector, selects } from '../../../src/base/label-selector.ts';

const FRONT = { app: 'web', tier: 'front', 'example.com/team': 'a' };

// What `kubectl get -l` selects (k8s.io/apimachinery, pkg/labels).
test.each<[selector: string, selected: boolean]>([
  ['', true],
  ['app=web', true],
  ['app==web', true],
  ['app = api', false],
  ['app=web,tier=front', true],
  ['app=web,tier=back', false],
  ['app!=web', false],
  ['app!=api', true],
  ['none!=x', true],
  ['none=', false],
  ['app', true],
  ['none', false],
  ['!app', false],
  ['! none', true],
  ['app in (api, web),tier notin (back)', true],
  ['app in (api)', false],
  ['none notin (x)', true],
  ['none in ()', false],
  ['example.com/team=a', true],
  ['constructor', false],
])('selector %j', (text, selected) => {
  const selector = parseLabelSelector(text);
  expect(selector === undefined ? undefined : selects(selector, FRONT)).toBe(selected);
});

test.each(['=web', 'app in web', 'app in (web', 'app=web,', ',', 'app>1', 'a b', 'app=w!', 'x/y/z', '-a=b', '__a'])(
  '%j is not a selector',
  (text) => {
    expect(parseLabelSelector(text)).toBeUndefined();
  },
);
