import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const shared = { resolve: { conditions: ['wardline-source'] }, ssr: { resolve: { conditions: ['wardline-source'] } } }

const root = fileURLToPath(new URL('.', import.meta.url))

/** Tests that open the service or its database; all but those of SQLite itself hold on every engine. */
const databaseTests = readdirSync(join(root, 'packages/server/src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts') && !/^db\/sqlite[^/]*$/.test(name))
  .map((name) => `packages/server/src/${name}`)
  .filter((path) => readFileSync(join(root, path), 'utf8').includes('/test-service.ts'))

/** The same tests on another engine. Every test opens a service of its own, so the files need no process of their own. */
const unitOn = (engine: 'pglite' | 'postgres') => ({
  ...shared,
  test: {
    name: `unit-${engine}`,
    isolate: false,
    env: { TEST_ENGINE: engine },
    globalSetup: './test-servers/setup.ts',
    include: databaseTests,
    // PGlite takes seconds for the first database of a process, and its time for many rows.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})

export default defineConfig({
  ...shared,
  test: {
    // Vitest sets BASE_URL itself; the black-box suite may be aimed at a running service by it.
    env: process.env.BASE_URL ? { BASE_URL: process.env.BASE_URL } : {},
    maxWorkers: 2,
    reporters: ['default', './test-reporter.ts'],
    projects: [
      { ...shared, test: { name: 'tidy', include: ['tidy.test.ts'] } },
      // Every test opens a service of its own, so the files need no process of their own.
      {
        ...shared,
        test: {
          name: 'unit',
          isolate: false,
          env: { TEST_ENGINE: 'sqlite' },
          globalSetup: './test-servers/setup.ts',
          include: ['packages/*/src/**/*.test.ts', 'docs/*.test.ts', 'deploy/*.test.ts', 'test-servers/*.test.ts'],
        },
      },
      unitOn('pglite'),
      unitOn('postgres'),
      {
        ...shared,
        test: {
          name: 'e2e',
          globalSetup: './test-servers/setup.ts',
          include: ['e2e/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
})
