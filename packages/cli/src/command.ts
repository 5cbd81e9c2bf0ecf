import type { Command } from 'commander'
import { addCompletion } from './completion.ts'
import { addOperatorCommands } from './operator-commands.ts'
import { createRoot } from './root.ts'
import { addServiceCommands } from './service-commands.ts'

/** Every command with its options. */
export function createProgram(): Command {
  const program = createRoot()
  addServiceCommands(program)
  addOperatorCommands(program)
  addCompletion(program)
  return program
}
