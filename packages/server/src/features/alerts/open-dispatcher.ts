import type { Deps } from '../../deps.ts'
import { createEgress } from '../../egress/open-egress.ts'
import { switchOffGone } from './channel-health.ts'
import type { Directory } from './directory.ts'
import { Dispatcher } from './dispatcher.ts'
import type { Outbox } from './outbox.ts'
import { createPlanner } from './planner.ts'
import { createSend } from './sender.ts'
import { Tries } from './tries.ts'

/** Everything between the outbox and the receivers. */
export function createDispatcher(deps: Deps, directory: { readonly current: Directory }, outbox: Outbox): Dispatcher {
  const allow = deps.config.alertAllowCidrs ?? []
  const egresses = {
    guarded: createEgress({ guarded: true, allow }),
    open: createEgress({ guarded: false, allow }),
  }
  const tries = new Tries(deps, createSend(deps, egresses))
  const dispatcher = new Dispatcher(deps, {
    directory,
    planner: createPlanner(deps, directory),
    tries,
    egresses,
    onGone: (channelId) => switchOffGone(deps, outbox, channelId),
  })
  outbox.listen(() => dispatcher.wake())
  return dispatcher
}
