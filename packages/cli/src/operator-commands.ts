import type { Command } from 'commander'
import { addRoutes } from './alert-routes.ts'
import { addAlerts } from './alerts.ts'
import { addChannels } from './channels.ts'
import { addDecoys } from './decoys.ts'
import { addDoctor } from './doctor.ts'
import { addEvents } from './events.ts'
import { addInstances } from './instances.ts'
import { addKeys } from './keys.ts'
import { addKill } from './kill.ts'
import { addProfile } from './profile.ts'
import { addSilences } from './silences.ts'
import { addStatus } from './status.ts'
import { addTail } from './tail.ts'

/** What an operator does from anywhere. None of these loads the service, which would take longer than most of them run. */
export function addOperatorCommands(program: Command): void {
  program.commandsGroup('From anywhere:')
  const ofTheFleet = [addStatus, addInstances, addKill, addTail, addEvents, addDecoys]
  const ofAlerts = [addAlerts, addChannels, addRoutes, addSilences]
  for (const add of [...ofTheFleet, ...ofAlerts, addKeys, addDoctor, addProfile]) add(program)
}
