import type { TestProject } from 'vitest/node'
import { bundleCommand } from '../bundle.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The file that runs the command line, and with `serve` the service: what `npm start` runs. */
    command: string
  }
}

/** Called once before the black-box tests. */
export async function setup(project: TestProject): Promise<void> {
  project.provide('command', await bundleCommand())
}
