import { type Command, Option } from 'commander'
import { messageTable, testedText } from './channel-text.ts'
import { Failure } from './exit.ts'
import { durationOption } from './instant.ts'
import { readRows, rowLimit } from './row-pages.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'

const messageStates = ['pending', 'delivered', 'dead'] as const

interface LogOptions extends ServiceFlags {
  state?: (typeof messageStates)[number]
  limit: number
  before?: string
}

async function test(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('testChannel', { params: { id } })
  const { ok, error } = reply
  console.log(json ? plainJson(reply, 2) : testedText(reply))
  if (!ok)
    throw new Failure(`The receiver did not take it: ${error ?? 'it gave no reason.'}`, 'not_delivered', 'failed')
  // A mail that some recipients were refused counts as delivered.
  if (error !== null && !json) console.error(plainText(error))
}

async function rotate(id: string, { overlap, json, ...flags }: ServiceFlags & { overlap?: number }): Promise<void> {
  const body = overlap === undefined ? {} : { overlap_seconds: Math.round(overlap / 1_000) }
  const { call } = await findService(flags)
  const reply = await call('rotateChannelSecret', { params: { id }, body })
  if (json) return console.log(plainJson(reply, 2))
  // The secret alone goes to standard output, so that it can be written to where it belongs.
  console.error(`New signing secret of channel ${plainText(reply.id)}. It is shown once:`)
  console.log(plainText(reply.secret))
}

async function replay(id: string, { json, ...flags }: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('replayChannel', { params: { id } })
  if (json) return console.log(plainJson(reply, 2))
  const { replayed } = reply
  console.log(replayed === 1 ? '1 message is tried again.' : `${replayed} messages are tried again.`)
}

async function log(id: string | undefined, { state, limit, before, json, ...flags }: LogOptions): Promise<void> {
  const { call } = await findService(flags)
  const filter = { ...(id === undefined ? {} : { channel_id: id }), ...(state === undefined ? {} : { state }) }
  const { rows, next } = await readRows(limit, before, async (page) => {
    const reply = await call('listMessages', { query: { ...filter, ...page } })
    return { rows: reply.messages, next: reply.next }
  })
  if (json) return console.log(plainJson({ messages: rows, next }, 2))
  if (rows.length > 0) console.log(messageTable(rows))
  if (next !== null) console.error(`-- more: the same with --before ${plainText(next)}`)
  else if (rows.length === 0) console.error('There is no such message.')
}

/** What shows whether a channel works, and mends it. */
export function addChannelTries(channels: Command): void {
  withService(
    channels
      .command('test <id>')
      .description(
        'send a test message, and print what the receiver answered: exit code 0 when it took it, 1 when not',
      ),
  ).action(test)
  const logging = channels
    .command('log')
    .argument('[id]', 'of one channel')
    .description('messages that were sent or wait, newest first, and what receivers answered')
    .addOption(new Option('--state <state>', 'only these; dead means given up').choices(messageStates))
    .option('--limit <number>', 'most messages to show', rowLimit, 100)
    .option('--before <cursor>', 'go on where a list before this one ended')
  withService(logging).action(log)
  withService(
    channels.command('replay <id>').description('try all messages again that were given up, with their old ids'),
  ).action(replay)
  const rotating = channels
    .command('rotate-secret <id>')
    .description('make a new signing secret for a webhook; the old one signs too for a while')
    .option('--overlap <duration>', 'how long both sign, such as 24h, which it is unless told', durationOption)
  withService(rotating).action(rotate)
}
