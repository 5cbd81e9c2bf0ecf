import {
  type BaselineDetail,
  type BaselineList,
  type BaselineView,
  baselineText,
  type EpisodeView,
} from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { severityText } from './events/event-text.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

interface ShowOptions extends ServiceFlags {
  metric?: string
}

/** Number of anomalies shown; `--json` lists more. */
const maxShown = 10

const outcomeTexts: Record<NonNullable<EpisodeView['outcome']>, string> = {
  over: 'over',
  accepted: 'new level accepted',
  reset: 'baseline reset',
  silent: 'no more reports',
  level: 'level has risen',
}

const shown = (value: number): string => String(Number(value.toPrecision(4)))

function baselineRow(view: BaselineView): string[] {
  const { metric, usual, alarm_above, highest, samples, episode } = view
  return [
    sanitize(metric),
    usual ? `${shown(usual.low)} to ${shown(usual.high)}` : '-',
    alarm_above === null ? '-' : shown(alarm_above),
    shown(highest),
    String(samples),
    `${episode ? 'ANOMALY OPEN; ' : ''}${baselineText(view, Date.now(), 'utc')}`,
  ]
}

const baselineHeads = ['Metric', 'Usual', 'Reported above', 'Highest', 'Samples', 'State']

function printEpisodes(episodes: readonly EpisodeView[]): void {
  console.log(episodes.length === 0 ? '\nNo anomalies.' : '\nLast anomalies:')
  for (const { severity, metric, began_at, ended_at, peak, outcome } of episodes.slice(0, maxShown)) {
    const end = outcome === null ? 'open' : `${outcomeTexts[outcome]}${ended_at ? ` at ${ended_at}` : ''}`
    console.log(`${began_at}  ${severityText(severity)}  ${sanitize(metric)} up to ${shown(peak)}  ${end}`)
  }
}

function printReplayed({ samples, replayed }: BaselineDetail): void {
  const [first] = samples
  if (!first) {
    console.log('\nNo samples are stored as events.')
    return
  }
  console.log(`\nOf the ${samples.length} samples since ${first.at}, the detector would have reported:`)
  if (replayed.length === 0) console.log('nothing')
  for (const { at, severity, value } of replayed.slice(-maxShown)) {
    console.log(`${at}  ${severityText(severity)}  ${shown(value)}`)
  }
}

function printDetail(detail: BaselineDetail): void {
  console.log(textTable([baselineHeads, baselineRow(detail.baseline)]))
  printEpisodes(detail.episodes)
  printReplayed(detail)
}

async function show(instanceId: string, flags: ShowOptions): Promise<void> {
  const { metric } = flags
  const { call } = await findService(flags)
  if (metric !== undefined) {
    const detail: BaselineDetail = await call('getBaseline', { params: { instanceId, metric } })
    if (flags.json) console.log(safeJson(detail, 2))
    else printDetail(detail)
    return
  }
  const list: BaselineList = await call('listBaselines', { params: { instanceId } })
  if (flags.json) console.log(safeJson(list, 2))
  else if (list.baselines.length === 0) console.error(`${sanitize(instanceId)} has reported no session metrics.`)
  else {
    console.log(textTable([baselineHeads, ...list.baselines.map(baselineRow)]))
    printEpisodes(list.episodes)
  }
}

async function change(
  endpoint: 'acceptBaseline' | 'resetBaseline',
  done: string,
  [instanceId, metric]: [string, string],
  flags: ServiceFlags,
): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call(endpoint, { params: { instanceId, metric } })
  console.log(flags.json ? safeJson(reply, 2) : `${sanitize(metric)} of ${sanitize(instanceId)} ${done}.`)
}

export function addBaselines(program: Command): void {
  const baselines = program.command('baselines').description('show, accept and reset what is usual for an agent')
  const showing = baselines
    .command('show', { isDefault: true })
    .argument('<instance>', 'id of the instance')
    .description('show what is usual for each session metric of an instance, and its last anomalies')
    .option('--metric <name>', 'show a metric, and which of its stored samples would have been reported')
  withService(showing).action(show)
  const accepting = baselines
    .command('accept <instance> <metric>')
    .description('accept the level of the open anomaly as usual, which ends the anomaly')
  withService(accepting).action((instance: string, metric: string, flags: ServiceFlags) =>
    change('acceptBaseline', 'is accepted as usual', [instance, metric], flags),
  )
  const resetting = baselines
    .command('reset <instance> <metric>')
    .description('reset a metric: what is usual is learnt again')
  withService(resetting).action((instance: string, metric: string, flags: ServiceFlags) =>
    change('resetBaseline', 'is learnt again from now on', [instance, metric], flags),
  )
}
