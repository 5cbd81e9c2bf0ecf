import type { EndpointName } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { unknownId } from '../../errors.ts'
import { requestActor } from '../../http/actor.ts'
import type { Principal } from '../../http/auth.ts'
import { pageLimit } from '../../http/page.ts'
import type { Input, Router } from '../../http/route.ts'
import { listOperators } from '../keys/operators.ts'
import { changeAlert, countAlerts, listAlerts, viewAlert } from './alerts.ts'
import { addComment, deleteComment } from './comments.ts'
import { listChannels, viewChannel } from './delivery/channel-health.ts'
import { viewContent } from './delivery/message-content.ts'
import { listMessages, replay, testChannel } from './delivery/messages.ts'
import type { Alerting } from './open-alerts.ts'
import { waiting } from './planning/planner.ts'
import { previewAlert } from './preview.ts'
import {
  type ChannelChanging,
  changeChannel,
  createChannel,
  deleteChannel,
  rotateChannelSecret,
} from './routing/channels.ts'
import {
  createRoute,
  createSilence,
  deleteRoute,
  endSilence,
  listRoutes,
  listSilences,
  replaceRoute,
} from './routing/rules.ts'

export function mountAlerts(
  router: Router,
  deps: Deps,
  { routingTable: table, dispatcher, messageDelivery, outbox, requestOf, mailRecipients }: Alerting,
): void {
  const { database } = deps
  const { db } = database

  const changeOf = ({ request }: Pick<Input<EndpointName>, 'request'>): ChannelChanging => ({
    deps,
    table,
    outbox,
    waiting,
    actor: requestActor(request),
  })

  function channelOf(id: string) {
    const channel = table.current.channels.find((known) => known.id === id)
    if (!channel) throw unknownId('channel', id, 'wardline channels list')
    return channel
  }

  router.handle('listAlerts', ({ query, principal }) => {
    const limit = pageLimit(query.limit)
    return database.scan(principal.keyId, (scanned) => listAlerts(deps, scanned, principal, query, limit))
  })

  router.handle('countAlerts', ({ query, principal }) =>
    database.scan(principal.keyId, (scanned) => countAlerts(scanned, principal, query)),
  )

  router.handle('getAlert', ({ params, principal }) => viewAlert(deps, db, params.id, principal))

  router.handle('listAssignees', async ({ principal }) => {
    const operators = await listOperators(deps, db, deps.clock.now())
    return { assignees: operators.map((one) => ({ ...one, own: one.id === principal.registers.owner })) }
  })

  const changing = ({ principal, request }: Pick<Input<EndpointName>, 'principal' | 'request'>) => ({
    database,
    config: deps.config,
    principal,
    actor: requestActor(request),
    now: deps.clock.now(),
  })

  router.handle('changeAlert', async (input) => {
    const { params, body } = input
    const changed = await changeAlert(changing(input), params.id, body)
    dispatcher.wake()
    return { ok: true, id: params.id, changed }
  })

  const viewChoice = (principal: Principal) => mailRecipients.view(principal, table.personal !== undefined)

  router.handle('getMailChoice', ({ principal }) => viewChoice(principal))

  router.handle('setMailChoice', async ({ body, principal, request }) => {
    await mailRecipients.choose(principal, body, requestActor(request))
    return viewChoice(principal)
  })

  router.handle('addComment', async (input) => ({
    ok: true,
    id: await addComment(changing(input), input.params.id, input.body.text),
  }))

  router.handle('deleteComment', async (input) => {
    const { id } = input.params
    await deleteComment(changing(input), id)
    return { ok: true, id }
  })

  router.handle('listMessages', ({ query, principal }) => {
    const limit = pageLimit(query.limit)
    return database.scan(principal.keyId, (scanned) => listMessages(scanned, query, limit))
  })

  router.handle('getMessageContent', ({ params }) =>
    viewContent({ ...deps, requestOf }, table.current.channels, params.id),
  )

  router.handle('testChannel', ({ params }) => testChannel(deps, messageDelivery, channelOf(params.id)))

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

  /** Responds to a change only after this process has reloaded it. */
  async function known<Result>(done: Promise<Result>): Promise<Result> {
    const result = await done
    await table.refresh()
    return result
  }

  router.handle('listChannels', async () => ({ channels: await listChannels(db, table, deps.clock.now()) }))

  router.handle('getChannel', ({ params }) => viewChannel(db, table, params.id, deps.clock.now()))

  router.handle('createChannel', (input) => known(createChannel(changeOf(input), input.body)))

  router.handle('changeChannel', async (input) => {
    await known(changeChannel(changeOf(input), input.params.id, input.body))
    return { ok: true, id: input.params.id }
  })

  router.handle('deleteChannel', async (input) => {
    await known(deleteChannel(changeOf(input), input.params.id))
    return { ok: true, id: input.params.id }
  })

  router.handle('rotateChannelSecret', async (input) => {
    const { params, body } = input
    const secret = await known(rotateChannelSecret(changeOf(input), params.id, body.overlap_seconds))
    return { ok: true, id: params.id, secret }
  })

  router.handle('listRoutes', async () => ({ routes: await listRoutes(db) }))

  router.handle('previewAlert', ({ body }) => previewAlert(db, table, body, deps.clock.now()))

  router.handle('createRoute', async (input) => {
    return { ok: true, id: await known(createRoute(changeOf(input), input.body)) }
  })

  router.handle('replaceRoute', async (input) => {
    await known(replaceRoute(changeOf(input), input.params.id, input.body))
    return { ok: true, id: input.params.id }
  })

  router.handle('deleteRoute', async (input) => {
    await known(deleteRoute(changeOf(input), input.params.id))
    return { ok: true, id: input.params.id }
  })

  router.handle('listSilences', async () => ({ silences: await listSilences(db, deps.clock.now()) }))

  router.handle('createSilence', async (input) => {
    return { ok: true, id: await known(createSilence(changeOf(input), input.body)) }
  })

  router.handle('deleteSilence', async (input) => {
    await known(endSilence(changeOf(input), input.params.id))
    return { ok: true, id: input.params.id }
  })
}
