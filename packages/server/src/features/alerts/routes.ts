import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { requestActor } from '../../http/actor.ts'
import { pageLimit } from '../../http/page.ts'
import type { Router } from '../../http/route.ts'
import { changeAlert, listAlerts, viewAlert } from './alerts.ts'
import { mountChannels } from './channel-routes.ts'
import type { Dispatcher } from './dispatcher.ts'
import { listMessages, replay, testChannel } from './messages.ts'
import type { ChannelDirectory } from './open-directory.ts'

export interface AlertServices {
  channelDirectory: ChannelDirectory
  dispatcher: Dispatcher
}

export function mountAlerts(router: Router, deps: Deps, { channelDirectory, dispatcher }: AlertServices): void {
  const { db } = deps.database
  mountChannels(router, deps, channelDirectory)

  function channelOf(id: string) {
    const channel = channelDirectory.current.channels.find((known) => known.id === id)
    if (!channel) throw new AppError('not_found', 'There is no channel with this id.')
    return channel
  }

  router.handle('listAlerts', ({ query }) => listAlerts(db, query, pageLimit(query.limit)))

  router.handle('getAlert', ({ params }) => viewAlert(db, params.id))

  router.handle('changeAlert', async ({ params, body, request }) => {
    const changed = await changeAlert(deps, params.id, body, requestActor(request))
    dispatcher.wake()
    return { ok: true, id: params.id, changed }
  })

  router.handle('listMessages', ({ query }) => listMessages(db, query, pageLimit(query.limit)))

  router.handle('testChannel', ({ params }) => testChannel(deps, dispatcher, channelOf(params.id)))

  router.handle('replayChannel', async ({ params, request }) => {
    const replayed = await replay(deps, { channelId: channelOf(params.id).id }, requestActor(request))
    dispatcher.wake()
    return { ok: true, replayed }
  })

  router.handle('replayMessage', async ({ params, request }) => {
    const replayed = await replay(deps, params, requestActor(request))
    dispatcher.wake()
    return { ok: true, replayed }
  })
}
