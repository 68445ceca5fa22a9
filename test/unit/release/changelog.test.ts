import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { VERSION } from '../../../src/config/version.ts';
import { notesOf } from '../../../scripts/release/changelog.ts';

const CHANGELOG = `# Changelog

## [Unreleased]

### Added

- new

## [0.2.0] - 2026-12-01

### Fixed

- second

## 0.1.0 - 2026-01-01

First.
`;

describe('the notes of a release', () => {
  test.each([
    ['Unreleased', '### Added\n\n- new\n'],
    ['0.2.0', '### Fixed\n\n- second\n'],
    ['0.1.0', 'First.\n'],
  ])('of %s are its section without the heading', (version, notes) => {
    expect(notesOf(CHANGELOG, version)).toBe(notes);
  });

  test('a version that the changelog does not have is an error', () => {
    expect(() => notesOf(CHANGELOG, '0.2')).toThrow('CHANGELOG.md has no section 0.2');
  });

  test('our changelog has a section for our version', () => {
    expect(notesOf(readFileSync('CHANGELOG.md', 'utf8'), VERSION)).toContain('### ');
  });
});
