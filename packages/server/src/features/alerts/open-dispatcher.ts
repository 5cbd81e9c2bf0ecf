import type { Deps } from '../../deps.ts'
import { createEgress } from '../../egress/open-egress.ts'
import type { Directory } from './directory.ts'
import { Dispatcher } from './dispatcher.ts'
import { createPlanner } from './planner.ts'
import { createSend } from './sender.ts'
import { Tries } from './tries.ts'

/** Everything between the outbox and the receivers. */
export function createDispatcher(deps: Deps, directory: { readonly current: Directory }): Dispatcher {
  const allow = deps.config.alertAllowCidrs ?? []
  const egresses = {
    guarded: createEgress({ guarded: true, allow }),
    open: createEgress({ guarded: false, allow }),
  }
  const tries = new Tries(deps, createSend(deps, egresses))
  return new Dispatcher(deps, { directory, planner: createPlanner(deps, directory), tries, egresses })
}
