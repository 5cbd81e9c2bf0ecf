import { defineConfig } from 'vitest/config'

const shared = { resolve: { conditions: ['wardline-source'] }, ssr: { resolve: { conditions: ['wardline-source'] } } }

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
      { ...shared, test: { name: 'unit', isolate: false, include: ['packages/*/src/**/*.test.ts', 'docs/*.test.ts'] } },
      {
        ...shared,
        test: {
          name: 'e2e',
          include: ['e2e/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
})
