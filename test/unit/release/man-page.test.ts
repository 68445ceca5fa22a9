import { spawnSync } from 'node:child_process';
import { describe, expect, test } from '@jest/globals';
import { manPage } from '../../../scripts/release/man-page.ts';
import { COMMANDS, FLEET_COMMANDS } from '../../../src/command/program/run-command.ts';
import { FLAGS } from '../../../src/config/flags/flag-table.ts';

const page = manPage('1.2.3', '2026-11-22');

describe('the manual page', () => {
  test('has each flag once, with its default', () => {
    const headings = Array.from(page.matchAll(/^\.TP\n.*\\fB\\-\\-([\w\\-]+)\\fR/gm), ([, name = '']) =>
      name.replaceAll('\\', ''),
    );
    expect(headings.toSorted()).toEqual(FLAGS.map(({ name }) => name).toSorted());
    expect(page).toContain('default: 30s; field: ipvs.syncPeriod');
  });

  test('explains each subcommand', () => {
    const section = page.slice(page.indexOf('.SH SUBCOMMANDS'), page.indexOf('.SH OPTIONS'));
    const names = Array.from(section.matchAll(/^\.TP\n\\fB((?:fleet )?\w+).*\n(Prints .+)\.$/gm), ([, name]) => name);
    expect(names).toEqual([...Object.keys(COMMANDS), ...Object.keys(FLEET_COMMANDS).map((name) => `fleet ${name}`)]);
  });

  test('begins with the name, section, date and version', () => {
    expect(page.split('\n')[0]).toBe(
      '.TH KUBE\\-IPVS\\-PROXY 8 2026-11-22 "kube\\-ipvs\\-proxy 1.2.3" "System Administration"',
    );
  });

  const { error, stdout, stderr } = spawnSync('groff', ['-man', '-Tutf8', '-P-c', '-P-b', '-P-u', '-ww'], {
    input: page,
    encoding: 'utf8',
  });
  if (error !== undefined) test.todo('groff, which is not installed, did not format the page');
  else
    test('groff formats it without a warning', () => {
      expect(stderr).toBe('');
      expect(stdout).toContain('SYNOPSIS');
    });
});
