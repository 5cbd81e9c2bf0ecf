import type { NewSilence } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { Failure } from '../exit.ts'
import { durationOption, endOption } from '../instant.ts'
import { withService } from '../service/options.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { textTable } from '../text-table.ts'
import { type MatcherOptions, matchOf, matchText, withMatchers } from './matchers.ts'

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
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.silences.length === 0) return console.error('No silences.')
  console.log(
    textTable(
      reply.silences.map(({ id, ends_at, match, reason }) =>
        [id, `until ${ends_at}`, matchText(match), reason].map(sanitize),
      ),
    ),
  )
}

/** Builds the silence. Throws Failure without an end, or without a selection unless `--all` confirms that. */
export function silenceOf({ for: lasts, until, reason, all, ...matchers }: AddOptions, now: number): NewSilence {
  const match = matchOf(matchers)
  const ends_at = lasts === undefined ? until : new Date(now + lasts).toISOString()
  if (ends_at === undefined)
    throw new Failure('Option --for <duration> or --until <instant> is required, such as --for 2h.', 'usage', 'usage')
  if (Object.values(match).every((value) => value === undefined) && !all) {
    throw new Failure(
      'Option --severity, --type or --instance is required; --all means every alert, including decoy hits.',
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
  if (options.json) return console.log(safeJson(reply, 2))
  console.log(`Silence ${sanitize(reply.id)} is active until ${body.ends_at}: ${sanitize(matchText(body.match))}.`)
}

async function end(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteSilence', { params: { id } })
  console.log(flags.json ? safeJson(reply, 2) : `Silence ${sanitize(reply.id)} has ended.`)
}

export function addSilences(program: Command): void {
  const silences = program
    .command('silences')
    .description('suppress alerts for people for a while; machines still receive them')
  withService(silences.command('list', { isDefault: true }).description('list silences that have not ended')).action(
    list,
  )
  const adding = withMatchers(
    silences
      .command('add')
      .description('suppress matching alerts for people')
      .requiredOption('--reason <text>', 'reason; visible to others')
      .addOption(
        new Option('--for <duration>', 'duration, such as 2h or 1d').argParser(durationOption).conflicts('until'),
      )
      .option('--until <instant>', 'end, as an ISO 8601 instant', endOption),
  ).addOption(new Option('--all', 'every alert').conflicts(['severity', 'type', 'instance']))
  withService(adding).action(add)
  withService(silences.command('end <id>').description('end a silence')).action(end)
}
