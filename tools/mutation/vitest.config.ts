import { readdirSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { memoryFolder } from '../../test-servers/memory-folder.ts'
import { modules } from './modules.ts'

const { tests } = modules[process.env.MUTATION_MODULE ?? ''] ?? { tests: [] }
const conditions = ['wardline-source']
const inMemory = memoryFolder()

/** The unit tests of the module's folders: what covers a mutant is in the same folder or the one beside. */
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: tests.flatMap(({ folder, except }) =>
      readdirSync(folder)
        .filter((name) => name.endsWith('.test.ts') && !except?.test(name))
        .map((name) => `${folder}/${name}`),
    ),
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    env: { TEST_ENGINE: 'sqlite', ...(inMemory ? { TMPDIR: inMemory } : {}) },
  },
})
