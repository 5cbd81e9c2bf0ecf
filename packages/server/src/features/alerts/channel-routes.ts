import type { EndpointName } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { requestActor } from '../../http/actor.ts'
import type { Input, Router } from '../../http/route.ts'
import { validationSentence } from '../../http/validation.ts'
import {
  createRoute,
  createSilence,
  deleteRoute,
  endSilence,
  listRoutes,
  listSilences,
  replaceRoute,
} from './alert-rules.ts'
import { listChannels, viewChannel } from './channel-view.ts'
import { type Change, changeChannel, createChannel, deleteChannel, rotateChannelSecret } from './channels.ts'
import type { ChannelDirectory } from './open-directory.ts'

/** Channels, routes and silences. */
export function mountChannels(router: Router, deps: Deps, directory: ChannelDirectory): void {
  const { db } = deps.database

  const changeOf = ({ request }: Pick<Input<EndpointName>, 'request'>): Change => ({
    deps,
    directory,
    actor: requestActor(request),
    validate(schema, value) {
      const validate = request.compileValidationSchema(schema)
      return validate(value) ? undefined : validationSentence(validate.errors![0]!)
    },
  })

  /** The answer to a change comes after this process knows of it. */
  async function known<Result>(done: Promise<Result>): Promise<Result> {
    const result = await done
    await directory.refresh()
    return result
  }

  router.handle('listChannels', async () => ({ channels: await listChannels(db, directory) }))

  router.handle('getChannel', ({ params }) => viewChannel(db, directory, params.id))

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
