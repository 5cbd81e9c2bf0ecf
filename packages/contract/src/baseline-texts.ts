import { type BaselineView, baselineLearning } from './baselines.ts'

/** Zone in which a person reads times: that of the machine, or UTC. */
export type Zone = 'local' | 'utc'

const dayMs = 86_400_000
const minuteMs = 60_000

/** Returns "today 14:00", "tomorrow 14:00" or "28 Nov 14:00"; in UTC it says so. */
function whenText(at: number, now: number, zone: Zone): string {
  const timeZone = zone === 'utc' ? { timeZone: 'UTC' } : {}
  const format = (options: Intl.DateTimeFormatOptions, time: number) =>
    new Intl.DateTimeFormat('en-GB', { ...options, ...timeZone }).format(time)
  const dayOf = (time: number) => format({ day: 'numeric', month: 'short' }, time)
  const day = dayOf(at) === dayOf(now) ? 'today' : dayOf(at) === dayOf(now + dayMs) ? 'tomorrow' : dayOf(at)
  const clock = format({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }, at)
  return `${day} ${clock}${zone === 'utc' ? ' UTC' : ''}`
}

type Learnt = Pick<BaselineView, 'basis' | 'samples' | 'since'>

/** How long it is learnt, or what is missing. */
function learningText({ samples, since }: Learnt, now: number, zone: Zone): string {
  const end = since === null ? null : Math.ceil((Date.parse(since) + baselineLearning.ms) / minuteMs) * minuteMs
  const until = end === null || end <= now ? null : whenText(end, now, zone)
  const missing =
    samples < baselineLearning.samples ? `learning: ${samples} of ${baselineLearning.samples} samples` : null
  if (missing && until) return `${missing}, and at least until ${until}`
  return missing ?? (until ? `learning until ${until}` : 'learning until its next sample')
}

const bases = {
  type: 'judged against agents of the same type',
  tag: 'judged against agents with a common tag',
  fleet: 'judged against the fleet',
}

/** What is reported while it is learnt. */
function meanwhileText({ basis, samples }: Learnt): string {
  if (basis !== 'own' && basis !== 'none') return `meanwhile ${bases[basis]}`
  if (samples < baselineLearning.grossSamples)
    return `nothing is reported before ${baselineLearning.grossSamples} samples`
  return 'meanwhile only very large deviations are reported'
}

/**
 * Says what samples of a metric are judged by: while its baseline is learnt, until when or what is missing, and what
 * happens meanwhile. The dashboard and the command line show the same.
 */
export function baselineText(view: Learnt & Pick<BaselineView, 'quiet_time'>, now: number, zone: Zone): string {
  if (view.basis !== 'own') return `${learningText(view, now, zone)}; ${meanwhileText(view)}`
  return `judged against its own samples${view.quiet_time ? ', which are lower at this time of the week' : ''}`
}
