import type { Command } from 'commander'
import { addAlerts } from './alerts/alerts.ts'
import { addChannels } from './alerts/channels.ts'
import { addRoutes } from './alerts/routes.ts'
import { addSilences } from './alerts/silences.ts'
import { addDecoys } from './decoys.ts'
import { addDoctor } from './doctor/doctor.ts'
import { addEvents } from './events/events.ts'
import { addTail } from './events/tail.ts'
import { addInstances } from './instances.ts'
import { addKeys } from './keys/keys.ts'
import { addKill } from './kill.ts'
import { addLogin } from './login.ts'
import { addProfile } from './service/profile.ts'
import { addStatus } from './status.ts'

/** What an operator does from anywhere. None of these loads the service, which would take longer than most of them run. */
export function addOperatorCommands(program: Command): void {
  program.commandsGroup('From anywhere:')
  const ofTheFleet = [addStatus, addInstances, addKill, addTail, addEvents, addDecoys]
  const ofAlerts = [addAlerts, addChannels, addRoutes, addSilences]
  for (const add of [...ofTheFleet, ...ofAlerts, addKeys, addLogin, addDoctor, addProfile]) add(program)
}
