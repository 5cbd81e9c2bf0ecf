import type { TestProject } from 'vitest/node'
import { bundleCommand } from '../tools/bundle.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Path of the bundled command line, which `npm start` runs too. */
    command: string
  }
}

/** Called once before the black-box tests. */
export async function setup(project: TestProject): Promise<void> {
  project.provide('command', await bundleCommand())
}
