import type { NewSilence } from '@wardline/contract'
import { type Command, Option } from 'commander'
import { type MatcherOptions, matchOf, matchText, withMatchers } from './alert-matchers.ts'
import { Failure } from './exit.ts'
import { durationOption, endOption } from './instant.ts'
import { findService } from './service.ts'
import { withService } from './service-options.ts'
import type { ServiceFlags } from './service-settings.ts'
import { plainJson, plainText } from './terminal-text.ts'
import { textTable } from './text-table.ts'

interface AddOptions extends ServiceFlags, MatcherOptions {
  /** Milliseconds. */
  for?: number
  until?: string
  reason: string
  all?: boolean
}

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listSilences', {})
  if (flags.json) return console.log(plainJson(reply, 2))
  if (reply.silences.length === 0) return console.error('Nothing is silenced.')
  console.log(
    textTable(
      reply.silences.map(({ id, ends_at, match, reason }) =>
        [id, `until ${ends_at}`, matchText(match), reason].map(plainText),
      ),
    ),
  )
}

/** The silence that is asked for. Throws Failure when it has no end, or would be about everything by mistake. */
export function silenceOf({ for: lasts, until, reason, all, ...matchers }: AddOptions, now: number): NewSilence {
  const match = matchOf(matchers)
  const ends_at = lasts === undefined ? until : new Date(now + lasts).toISOString()
  if (ends_at === undefined) throw new Failure('Say how long: --for 2h, or --until an instant.', 'usage', 'usage')
  if (Object.keys(match).length === 0 && !all) {
    throw new Failure(
      'Say which alerts: --severity, --type or --instance. --all means every alert, that of a decoy too.',
      'usage',
      'usage',
    )
  }
  return { match, reason, ends_at }
}

async function add(options: AddOptions): Promise<void> {
  const body = silenceOf(options, Date.now())
  const { call } = await findService(options)
  const reply = await call('createSilence', { body })
  if (options.json) return console.log(plainJson(reply, 2))
  console.log(`Silence ${plainText(reply.id)} holds until ${body.ends_at}: ${plainText(matchText(body.match))}.`)
}

async function end(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteSilence', { params: { id } })
  console.log(flags.json ? plainJson(reply, 2) : `Silence ${plainText(reply.id)} has ended.`)
}

export function addSilences(program: Command): void {
  const silences = program
    .command('silences')
    .description('alerts that people do not hear of for a while; machines get them all the same')
  withService(silences.command('list').description('silences that have not ended')).action(list)
  const adding = withMatchers(
    silences
      .command('add')
      .description('keep matching alerts from people')
      .requiredOption('--reason <text>', 'why; others see it')
      .addOption(
        new Option('--for <duration>', 'how long, such as 2h or 1d').argParser(durationOption).conflicts('until'),
      )
      .option('--until <instant>', 'until then, in ISO 8601', endOption),
  ).addOption(new Option('--all', 'every alert').conflicts(['severity', 'type', 'instance']))
  withService(adding).action(add)
  withService(silences.command('end <id>').description('end a silence now')).action(end)
}
