import type { Command } from 'commander'
import { addDecoys } from './decoys.ts'
import { addDoctor } from './doctor.ts'
import { addEvents } from './events.ts'
import { addInstances } from './instances.ts'
import { addKeys } from './keys.ts'
import { addKill } from './kill.ts'
import { addProfile } from './profile.ts'
import { addStatus } from './status.ts'
import { addTail } from './tail.ts'

/** What an operator does from anywhere. None of these loads the service, which would take longer than most of them run. */
export function addOperatorCommands(program: Command): void {
  program.commandsGroup('From anywhere:')
  const adders = [addStatus, addInstances, addKill, addTail, addEvents, addDecoys, addKeys, addDoctor, addProfile]
  for (const add of adders) add(program)
}
