import type { Allowance, Approval, ApprovalDecision, ApprovalQuery, Client } from '@wardline/contract'
import { approvalLimits } from '@wardline/contract'
import { counted, safeJson, sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { Failure } from './exit.ts'
import { durationOption } from './instant.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

const minuteMs = 60_000
const uuidLength = 36
/** Characters of the arguments in the list; `show` prints all of them. */
const shownArgs = 60

interface DecisionOptions extends ServiceFlags {
  reason?: string
  /** Milliseconds. */
  for?: number
  calls?: number
}

const begin = (text: string, length: number): string => {
  const characters = Array.from(sanitize(text))
  return characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : characters.join('')
}

const nameOf = ({ by, by_name }: { by: string; by_name: string | null }): string => sanitize(by_name ?? by)

/** Describes the state of a request: who decided, or who still has to. */
function stateText({ state, approvals, approved_by, denied_by, allowance_id, asked, may_decide }: Approval): string {
  const by = approved_by.map(nameOf).join(' and ')
  if (state === 'pending') {
    const missing = by === '' ? '' : `, approved by ${by}: one more operator`
    const whose = may_decide ? '' : ', by another key than this'
    return `pending${approvals === 2 && by === '' ? ', needs two operators' : missing}${whose}`
  }
  if (denied_by) return `denied by ${nameOf(denied_by)}`
  if (state === 'expired' || by === '') return allowance_id && state !== 'expired' ? `${state} by an allowance` : state
  return `${state}, approved by ${by}${asked > 1 ? `, ${asked} attempts` : ''}`
}

const heads = ['ID', 'AGENT', 'TOOL', 'RULE', 'STATE', 'EXPIRES', 'ARGUMENTS']

/** Formats one line per request. Tool and arguments are texts of the agent. */
function approvalTable(rows: readonly Approval[]): string {
  const cells = rows.map((row) => [
    sanitize(row.id),
    sanitize(row.instance_id),
    begin(row.tool, shownArgs),
    begin(row.rule ?? '-', shownArgs),
    stateText(row),
    sanitize(row.state === 'pending' || row.state === 'approved' ? row.expires_at : '-'),
    begin(row.args ?? '-', shownArgs),
  ])
  return textTable([heads, ...cells])
}

/** Finds the id that begins with the given text, among the requests that wait. Throws Failure. */
async function fullId(call: Client, given: string): Promise<string> {
  if (given.length === uuidLength) return given
  const found: string[] = []
  for (let before: string | undefined; ; ) {
    const query: ApprovalQuery = { state: 'pending', limit: String(approvalLimits.page), ...(before ? { before } : {}) }
    const page = await call('listApprovals', { query })
    found.push(...page.approvals.map(({ id }) => id).filter((id) => id.startsWith(given)))
    if (page.next === null) break
    before = page.next
  }
  if (found.length === 1) return found[0]!
  const what = found.length === 0 ? 'No pending approval' : `${counted(found.length, 'pending approval')}`
  const verb = found.length === 0 ? 'begins' : 'begin'
  throw new Failure(`${what} ${verb} with ${given}; \`wardline approvals\` lists them.`, 'not_found', 'refused')
}

async function list(flags: ServiceFlags & { decided?: boolean; instance?: string }): Promise<void> {
  const { call } = await findService(flags)
  const query: ApprovalQuery = {
    state: flags.decided ? 'decided' : 'pending',
    ...(flags.instance === undefined ? {} : { instance_id: flags.instance }),
    limit: String(approvalLimits.page),
  }
  const reply = await call('listApprovals', { query })
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.approvals.length === 0) {
    return console.error(flags.decided ? 'No approval was decided yet.' : 'No call waits for an approval.')
  }
  console.log(approvalTable(reply.approvals))
  if (reply.next !== null) console.error(`The newest ${reply.approvals.length} are listed.`)
}

function showText(row: Approval): string {
  const facts: [string, string | null][] = [
    ['Agent', row.instance_id],
    ['Session', row.session_id],
    ['Tool', row.tool],
    ['Rule', row.rule],
    ['Why', row.why],
    ['State', stateText(row)],
    ['Reason', row.reason],
    ['Asked', `${row.requested_at}, ${counted(row.asked, 'attempt')}`],
    ['Expires', row.expires_at],
    ['Policy', `${row.policy_id} version ${row.policy_version}`],
    ['SHA-256', row.args_sha256],
  ]
  const lines = facts.flatMap(([name, value]) => (value === null ? [] : [[name, sanitize(value)]]))
  const args = (row.args ?? 'not sent by the agent').split('\n').map((line) => `  ${sanitize(line)}`)
  return [textTable(lines), 'Arguments, as the agent reports them:', ...args].join('\n')
}

async function show(given: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const row = await call('getApproval', { params: { id: await fullId(call, given) } })
  console.log(flags.json ? safeJson(row, 2) : showText(row))
}

async function decide(given: string, decision: 'approve' | 'deny', options: DecisionOptions): Promise<void> {
  const { json, reason, for: lasts, calls } = options
  const { call } = await findService(options)
  const id = await fullId(call, given)
  const body: ApprovalDecision = {
    decision,
    ...(reason === undefined ? {} : { reason }),
    ...(lasts === undefined ? {} : { for_minutes: Math.ceil(lasts / minuteMs) }),
    ...(calls === undefined ? {} : { max_calls: calls }),
  }
  const row = await call('decideApproval', { params: { id }, body })
  if (json) return console.log(safeJson(row, 2))
  const what = `${begin(row.tool, shownArgs)} of ${sanitize(row.instance_id)}`
  if (row.state === 'pending') return console.log(`Approved ${what}; one more operator has to approve it.`)
  console.log(`${decision === 'approve' ? 'Approved' : 'Denied'} ${what}.`)
  if (row.allowance_id !== null) {
    console.log(`Further calls need no approval; to end that: wardline approvals revoke ${sanitize(row.allowance_id)}`)
  }
}

const allowanceRow = (row: Allowance) => [
  row.id,
  row.instance_id,
  row.tool,
  row.state,
  `${row.used} of ${row.max_calls}`,
  row.expires_at,
  row.by_name ?? row.by,
]

async function allowances(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listAllowances', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.allowances.length === 0) return console.error('No allowances.')
  const rows = reply.allowances.map((row) => allowanceRow(row).map((cell) => begin(cell, shownArgs)))
  console.log(textTable([['ID', 'AGENT', 'TOOL', 'STATE', 'CALLS', 'EXPIRES', 'BY'], ...rows]))
}

async function revoke(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('revokeAllowance', { params: { id } })
  console.log(flags.json ? safeJson(reply, 2) : 'The allowance has ended: the next call asks again.')
}

function callsOption(text: string): number {
  const calls = Number(text)
  if (/^\d{1,4}$/.test(text) && calls >= 1 && calls <= approvalLimits.allowanceCalls) return calls
  throw new InvalidArgumentError(`It must be from 1 to ${approvalLimits.allowanceCalls}.`)
}

export function addApprovals(program: Command): void {
  const approvals = program
    .command('approvals')
    .description('list, approve and deny calls that agents ask an operator to approve')
  const listing = approvals
    .command('list', { isDefault: true })
    .description('list calls that wait for an operator')
    .option('--decided', 'those that were decided or expired')
    .option('--instance <id>', 'only those of this agent')
  withService(listing).action(list)
  const showing = approvals
    .command('show <id>')
    .description('show a call with its arguments; the first characters of the id are enough while it waits')
  withService(showing).action(show)
  const approving = approvals
    .command('approve <id>')
    .description('approve a call; the first characters of the id are enough')
    .option('--reason <text>', 'reason; sent to the agent and stored in the audit log')
    .addOption(
      new Option('--for <duration>', 'also allow further calls of this tool by this agent, at most 8h').argParser(
        durationOption,
      ),
    )
    .addOption(
      new Option(
        '--calls <number>',
        `calls that --for allows, this one included; default: ${approvalLimits.defaultAllowanceCalls}`,
      ).argParser(callsOption),
    )
  withService(approving).action((id: string, options: DecisionOptions) => decide(id, 'approve', options))
  const denying = approvals
    .command('deny <id>')
    .description('deny a call; the first characters of the id are enough')
    .option('--reason <text>', 'reason; sent to the agent and stored in the audit log')
  withService(denying).action((id: string, options: DecisionOptions) => decide(id, 'deny', options))
  withService(
    approvals.command('allowances').description('list allowances: calls that need no operator for a while'),
  ).action(allowances)
  withService(approvals.command('revoke <allowance>').description('end an allowance')).action(revoke)
}
