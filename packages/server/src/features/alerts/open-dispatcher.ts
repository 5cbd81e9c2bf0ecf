import type { Deps } from '../../deps.ts'
import { switchOffGone } from './channel-health.ts'
import type { Directory } from './directory.ts'
import { Dispatcher } from './dispatcher.ts'
import type { Outbox } from './outbox.ts'
import { createPlanner } from './planner.ts'
import { createSend, type Egresses } from './sender.ts'
import { Tries } from './tries.ts'

/** TLS and all that belongs to it takes memory, which only those pay who send. */
async function openEgresses(allow: readonly string[]): Promise<Egresses> {
  const { createEgress } = await import('../../egress/open-egress.ts')
  return { guarded: createEgress({ guarded: true, allow }), open: createEgress({ guarded: false, allow }) }
}

/** Everything between the outbox and the receivers. */
export function createDispatcher(deps: Deps, directory: { readonly current: Directory }, outbox: Outbox): Dispatcher {
  let opened: Promise<Egresses> | undefined
  const egresses = () => {
    opened ??= openEgresses(deps.config.alertAllowCidrs ?? [])
    return opened
  }
  const tries = new Tries(deps, createSend(deps, egresses))
  const dispatcher = new Dispatcher(deps, {
    directory,
    planner: createPlanner(deps, directory),
    tries,
    closeEgresses: async () => {
      const { guarded, open } = (await opened) ?? {}
      guarded?.close()
      open?.close()
    },
    onGone: (channelId) => switchOffGone(deps, outbox, channelId),
  })
  outbox.listen(() => dispatcher.wake())
  return dispatcher
}
