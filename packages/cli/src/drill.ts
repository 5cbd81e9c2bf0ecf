import { setTimeout as pause } from 'node:timers/promises'
import type { AgentSelector, Drill } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { UsageError } from './root.ts'
import { withService } from './service/options.ts'
import { findService, type Service } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

interface DrillOptions extends ServiceFlags {
  tag: string[]
  all?: boolean
}

/** Frequent enough to show the last answer immediately, without load on the service. */
const askEveryMs = 250
/** The service ends a drill after 35 seconds, or a minute later if the process that started it has stopped. */
const waitMs = 120_000

const reasonTexts: Record<Drill['missing'][number]['reason'], string> = {
  offline: 'offline',
  no_control_stream: 'no control stream is open',
  does_not_understand: 'does not understand drills: an old SDK, or another client',
  not_sent: 'the process with its control stream did not send the question',
  no_answer: 'no answer in time',
}

function selectorOf(command: Command, id: string | undefined, { tag, all }: DrillOptions): AgentSelector {
  if ([id !== undefined, tag.length > 0, all === true].filter(Boolean).length > 1) {
    throw new UsageError(command, 'An id, --tag and --all exclude each other.')
  }
  if (id !== undefined) return { instances: [id] }
  return tag.length > 0 ? { tags: tag } : { all: true }
}

async function finished({ call }: Service, started: Drill): Promise<Drill> {
  const deadline = performance.now() + waitMs
  for (let drill = started; ; drill = await call('getDrill', { params: { id: started.id } })) {
    if (drill.state === 'complete') return drill
    if (performance.now() >= deadline) {
      throw new Failure(`Drill ${started.id} is still running; GET /api/drills/:id shows it.`, 'running', 'failed')
    }
    await pause(askEveryMs)
  }
}

const agents = (count: number): string => `${count} ${count === 1 ? 'agent' : 'agents'}`
const msText = (ms: number | null): string => (ms === null ? '-' : `${ms} ms`)

function printSupervisors({ supervisors, supervisor_count }: Drill): void {
  if (supervisors.length === 0) return
  const rows = supervisors.map(({ instance_id, processes, unreachable }) => [
    sanitize(instance_id),
    String(processes - unreachable),
    String(unreachable),
  ])
  console.log(`\n${textTable([['Supervisor of', 'Processes it can hold', 'Unreachable'], ...rows])}`)
  if (supervisor_count > supervisors.length) console.log(`… and ${agents(supervisor_count - supervisors.length)} more`)
}

const leverTexts: Record<Drill['silent'][number]['lever'], string> = {
  process: 'its supervisor did not answer',
  model: 'no model gateway answered',
}

function printSilent({ silent, silent_count }: Drill): void {
  if (silent.length === 0) return
  const rows = silent.map(({ instance_id, lever }) => [sanitize(instance_id), leverTexts[lever] ?? sanitize(lever)])
  console.log(`\n${textTable([['Silent lever of', 'Which'], ...rows])}`)
  if (silent_count > silent.length) console.log(`… and ${silent_count - silent.length} more`)
}

const modelText = ({ model_count, model_calls, model_ms }: Drill): string =>
  `cuts ${agents(model_count)}, ${model_calls} open ${model_calls === 1 ? 'call' : 'calls'}, answered after ${msText(model_ms)}`

function print(drill: Drill): void {
  const { asked, answered, p50_ms, p99_ms, missing, missing_count, model_count } = drill
  console.log(
    textTable([
      ['Asked', String(asked)],
      ['Answered', String(answered)],
      ['p50', msText(p50_ms)],
      ['p99', msText(p99_ms)],
      ...(model_count > 0 ? [['Gateway', modelText(drill)]] : []),
    ]),
  )
  printSupervisors(drill)
  printSilent(drill)
  if (missing.length === 0) return
  const rows = missing.map(({ instance_id, reason }) => [
    sanitize(instance_id),
    reasonTexts[reason] ?? sanitize(reason),
  ])
  console.log(`\n${textTable([['Missing', 'Why'], ...rows])}`)
  if (missing_count > missing.length) console.log(`… and ${agents(missing_count - missing.length)} more`)
}

async function drill(command: Command, id: string | undefined, options: DrillOptions): Promise<void> {
  const service = await findService(options)
  const selector = selectorOf(command, id, options)
  const started = await service.call('startDrill', { body: { selector } })
  const of = started.tags_scope ? ` of ${sanitize(started.tags_scope.join(' or '))}` : ''
  if (!options.json) console.log(`Drill ${sanitize(started.id)}: ${agents(started.selected)} selected${of}`)
  if (!options.json && process.stderr.isTTY) console.error('Waiting for the answers …')
  const done = await finished(service, started)
  if (options.json) console.log(safeJson(done, 2))
  else print(done)
  const silent = done.asked - done.answered
  if (silent === 0 && done.incomplete_count > 0) {
    const fault = `The supervisors of ${agents(done.incomplete_count)} could not hold every process.`
    throw new Failure(fault, 'incomplete', 'unconfirmed')
  }
  if (silent === 0 && done.silent_count > 0) {
    const fault = 'A supervisor or the model gateway did not answer: a suspension might not hold the agent by it.'
    throw new Failure(fault, 'silent', 'unconfirmed')
  }
  if (silent === 0) return
  const fault = `${agents(silent)} of ${done.asked} did not answer: a suspension might not reach them.`
  throw new Failure(fault, 'unanswered', 'unconfirmed')
}

export function addDrill(program: Command): void {
  const command = program
    .command('drill [id]')
    .description('ask agents by a harmless message whether a suspension would reach them; default: all agents')
    .option(
      '--tag <tag>',
      'agents with this tag; repeatable: those with all of them',
      (tag, given: string[]) => [...given, tag],
      [],
    )
    .option('--all', 'every agent')
  withService(command).action((id: string | undefined, options: DrillOptions) => drill(command, id, options))
}
