import { createInterface } from 'node:readline/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type {
  AgentSelector,
  Client,
  Containment,
  ContainmentPlan,
  ContainmentSummary,
  NewContainment,
  ResumeRequest,
} from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { repeated, withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

interface ContainOptions extends ServiceFlags {
  tag?: string[]
  instance?: string[]
  all?: boolean
  resume?: boolean
  reason: string
  confirm?: string
  dryRun?: boolean
  twoPerson?: boolean
  wait: boolean
}

/** Frequent enough to show progress, without load on the service. */
const askEveryMs = 250
/** A containment ends 35 seconds after its last agent was changed, which takes some seconds in a large fleet. */
const waitMs = 60_000

function selectorOf({ tag, instance, all }: ContainOptions): AgentSelector {
  const given = [tag, instance, all].filter((part) => part !== undefined)
  if (given.length !== 1) {
    throw new Failure('Exactly one of --tag, --instance and --all is required.', 'usage', 'usage')
  }
  return { ...(tag ? { tags: tag } : {}), ...(instance ? { instances: instance } : {}), ...(all ? { all } : {}) }
}

const agentsText = (count: number) => (count === 1 ? '1 agent' : `${count} agents`)

/** Formats the plan of a containment. */
function planText({
  action,
  agents,
  paths,
  unreached,
  unreached_counts: late,
  second_operator,
}: ContainmentPlan): string {
  const known = unreached.map(({ id, reason }) => [id, reason.replaceAll('_', ' ')].map(sanitize))
  const rest = late.offline + late.no_control_stream + late.old_sdk - unreached.length
  return [
    `Would ${action} ${agentsText(agents)}: ${paths.stream} by control stream, ${paths.poll} by poll, ${paths.unknown} unknown.`,
    ...(second_operator ? ['A second operator has to confirm it.'] : []),
    ...(known.length > 0 ? ['Not reached at once:', textTable(known)] : []),
    ...(rest > 0 ? [`… and ${rest} more`] : []),
  ].join('\n')
}

/** Returns the confirmation from --confirm, else from a prompt. Throws Failure without a terminal. */
async function typedConfirmation(plan: ContainmentPlan, given: string | undefined): Promise<string> {
  if (given !== undefined) return given
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new Failure(
      `This would ${plan.action} ${agentsText(plan.agents)}: confirm it with --confirm "${plan.confirm}".`,
      'confirm_required',
      'usage',
    )
  }
  console.error(planText(plan))
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new Promise<never>((_resolve, reject) => {
    lines.once('close', () => reject(new Failure('Nothing was changed.', 'confirm_required', 'usage')))
  })
  // It also rejects after the answer, when nothing awaits it.
  ended.catch(() => {})
  try {
    return (await Promise.race([lines.question(`Type "${plan.confirm}" to confirm: `), ended])).trim()
  } finally {
    lines.close()
  }
}

/** Names the operators, where two were needed. */
const operatorsText = ({ by, by_name, confirmed_by, confirmed_by_name }: Containment): string =>
  confirmed_by === null
    ? ''
    : `; requested by ${sanitize(by_name ?? by)}, confirmed by ${sanitize(confirmed_by_name ?? confirmed_by)}`

const progressText = (found: Containment): string =>
  `${found.state.replaceAll('_', ' ')}: ${found.changed} of ${found.requested} changed, ${found.confirmed} confirmed, ${found.proven} proven, ${found.missing_count} missing${found.violated > 0 ? `, ${found.violated} active although suspended` : ''}${operatorsText(found)}`

/** Whether the state may still improve: by confirmations of agents, or by retries at enforcement points. */
export function mayImprove({ state, missing_count, enforcement }: ContainmentSummary): boolean {
  const areCallsOpen = enforcement.confirmed + enforcement.failed < enforcement.calls
  return state === 'in_progress' || (state === 'partial' && missing_count === 0 && areCallsOpen)
}

async function waitForEnd(call: Client, started: Containment): Promise<Containment> {
  const deadline = performance.now() + waitMs
  let found = started
  while (mayImprove(found) && performance.now() < deadline) {
    await pause(askEveryMs)
    found = await call('getContainment', { params: { id: started.id } })
  }
  return found
}

function missingText({ missing, missing_count }: Containment): string {
  const more = missing_count - missing.length
  return `${missing.map(sanitize).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** Formats the agents that did not confirm, with an explanation. */
export function unconfirmedText(found: Containment): string {
  const { calls, confirmed } = found.enforcement
  const open = calls - confirmed
  const callsText = `${open} ${open === 1 ? 'call' : 'calls'} to enforcement points`
  const missing = [...(found.missing_count > 0 ? [missingText(found)] : []), ...(open > 0 ? [callsText] : [])]
  const unsure = found.missing_count > 0 ? ' They may still be running: stop their processes if necessary.' : ''
  const failing = open > 0 ? ' `wardline enforcement` shows how the points answer.' : ''
  return `Not confirmed by ${missing.join(' and ')}.${unsure}${failing}`
}

async function contain(options: ContainOptions): Promise<void> {
  const { json, reason, resume, dryRun, twoPerson } = options
  const request: NewContainment = {
    action: resume ? 'resume' : 'suspend',
    selector: selectorOf(options),
    reason,
    ...(twoPerson ? { two_person: true } : {}),
  }
  const { call } = await findService(options)
  const create = (more: Partial<NewContainment>) => call('createContainment', { body: { ...request, ...more } })
  const isAsked = dryRun || options.confirm === undefined
  const plan = isAsked ? ((await create({ dry_run: true })) as ContainmentPlan) : undefined
  if (dryRun && plan) return console.log(json ? safeJson(plan, 2) : planText(plan))
  const confirm = plan ? await typedConfirmation(plan, options.confirm) : options.confirm!
  const started = (await create({ confirm })) as Containment
  if (!json) console.log(`Containment ${started.id}: ${request.action} ${agentsText(started.requested)}`)
  const found = options.wait ? await waitForEnd(call, started) : started
  console.log(json ? safeJson(found, 2) : progressText(found))
  if (!options.wait || found.state === 'complete') return
  throw new Failure(unconfirmedText(found), 'unconfirmed', 'unconfirmed')
}

function selectorText({ instances, tags, all }: AgentSelector, scope: readonly string[] | null): string {
  const of = scope === null ? '' : ` of ${scope.join(' or ')}`
  if (all) return `all${of}`
  return tags ? `tags ${tags.join(' ')}${of}` : (instances ?? []).join(' ')
}

const rowOf = (row: ContainmentSummary) =>
  [
    row.id,
    row.requested_at,
    row.action,
    row.state.replaceAll('_', ' '),
    `${row.confirmed} of ${row.requested} confirmed`,
    `${row.proven} proven`,
    selectorText(row.selector, row.tags_scope),
    row.reason,
  ].map(sanitize)

const requestText = (request: ResumeRequest): string => {
  const what = request.instance_id ?? (request.selector ? selectorText(request.selector, request.tags_scope) : '')
  return `The resume of ${what} (${agentsText(request.agents)}) waits for a second operator until ${request.expires_at}; requested by ${request.by_name ?? request.by}.`
}

async function show(id: string | undefined, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  if (id !== undefined) {
    const found = await call('getContainment', { params: { id } })
    if (flags.json) return console.log(safeJson(found, 2))
    console.log(textTable([rowOf(found)]))
    console.log(progressText(found))
    if (found.missing_count > 0) console.log(`Missing: ${missingText(found)}`)
    if (found.joined.length > 0) console.log(`Registered meanwhile: ${found.joined.map(sanitize).join(', ')}`)
    return
  }
  const reply = await call('listContainments', { query: {} })
  if (flags.json) return console.log(safeJson(reply, 2))
  for (const request of reply.resume_requests) console.log(sanitize(requestText(request)))
  if (reply.containments.length > 0) console.log(textTable(reply.containments.map(rowOf)))
  else console.error('No containments.')
}

export function addContain(program: Command): void {
  const containing = program
    .command('contain')
    .description('suspend (or with --resume resume) many agents at once, and wait for them to confirm')
    .option('--tag <tag>', 'agents with this tag; repeatable: those with all of them', repeated)
    .option('--instance <id>', 'this agent; repeatable', repeated)
    .option('--all', 'every agent')
    .requiredOption('--reason <text>', 'reason; sent to the agents and stored in the audit log')
    .option('--resume', 'resume instead of suspend')
    .option('--dry-run', 'show which agents it would reach, and how; changes nothing')
    .option('--confirm <text>', 'the confirmation that a terminal prompts for, such as "suspend 140 agents"')
    .option('--two-person', 'resuming these agents needs a second operator')
    .option('--no-wait', 'do not wait for the agents to confirm')
  withService(containing).action(contain)
}

export function addContainments(program: Command): void {
  const showing = program
    .command('containments')
    .argument('[id]', 'show a containment, and which agents have not confirmed')
    .description('list containments, and resumes that wait for a second operator')
  withService(showing).action(show)
}
