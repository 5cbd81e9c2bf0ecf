import { createInterface } from 'node:readline/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { type ChainDropPlan, erc8126Errors, scoredOver, verificationTypes } from '@wardline/contract'
import { type Deps, openChain, verifySelf } from '@wardline/server'
import { cutText, safeJson, sanitize, utf16Size } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { withLocalDatabase } from './local.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

interface SendOptions {
  yes?: boolean
  wait: boolean
}

type Chain = NonNullable<Awaited<ReturnType<typeof openChain>>>
type Kind = Parameters<Chain['transaction']>[0]
type HigherCost = NonNullable<Awaited<ReturnType<Chain['openVerification']>>>['higher']

/** Chains produce a block every 2 to 12 seconds. */
const askEveryMs = 2_000
/** An address on the chain can be any text. */
const maxShownUri = 300
/** Several minutes on a busy chain. Afterwards the service continues. */
const waitMs = 600_000

const withChain = <Result>(work: (chain: Chain, deps: Deps) => Promise<Result>): Promise<Result> =>
  withLocalDatabase(async (deps) => {
    const chain = await openChain(deps)
    if (!chain) {
      const message = 'No chain is configured: set TRUST_RPC_URL to a node of TRUST_CHAIN_ID, as for the service.'
      throw new Failure(message, 'configuration', 'configuration')
    }
    try {
      return await work(chain, deps)
    } finally {
      chain.close()
    }
  })

/** Shows what will be sent; throws Failure unless the operator confirms. */
async function agree(lines: string[], { yes }: Pick<SendOptions, 'yes'>): Promise<void> {
  for (const line of lines) console.error(sanitize(line))
  if (yes) return
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new Failure('This sends a transaction that costs money: confirm it with --yes.', 'confirm_required', 'usage')
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await asking.question('Type "send" to confirm: ')
    if (answer.trim() !== 'send') throw new Failure('Nothing was sent.', 'confirm_required', 'usage')
  } finally {
    asking.close()
  }
}

/** Processes transactions, in turns with the service if it runs, until this one is final; prints its states. */
async function waitFor(chain: Chain, kind: Kind, subject?: string): Promise<void> {
  const until = performance.now() + waitMs
  for (let shown = ''; performance.now() < until; ) {
    await chain.run()
    const row = await chain.transaction(kind, subject)
    const text = `${row?.state} ${row?.tx_hash ?? ''}`.trim()
    if (text !== shown) console.error(text)
    shown = text
    if (row?.state === 'failed') throw new Failure(row.error ?? 'The transaction failed.', 'refused', 'refused')
    if (row?.state === 'confirmed') return console.log(row.result ?? '')
    const dearer = row && (await chain.waitsForCost(row))
    if (dearer !== undefined) throw new Failure(dearer, 'cost_rose', 'unconfirmed')
    await pause(askEveryMs)
  }
  const message = 'Not confirmed yet: the service continues; `wardline chain status` shows its state.'
  throw new Failure(message, 'unconfirmed', 'unconfirmed')
}

interface Plan {
  from: string
  to: string
  gas: number
  maxFee: bigint
  cost: string
}

const planLines = ({ from, to, gas, maxFee, cost }: Plan): string[] => [
  `From      ${from}`,
  `To        ${to}`,
  `Gas       ${gas} at most ${Number(maxFee) / 1e9} gwei each`,
  `Costs     at most ${cost} of the currency of the chain`,
]

/** Shows the higher cost that a queued transaction waits for, and confirms it. */
async function agreeAgain(higher: HigherCost, options: SendOptions): Promise<void> {
  if (!higher) return
  const reason = `Queued already: at most ${higher.plan.confirmed} was confirmed, and the chain asks for more now.`
  await agree([reason, ...planLines(higher.plan)], options)
  await higher.confirm()
}

const fileLines = (file: object): string[] => ['Registration file:', ...safeJson(file, 2).split('\n')]

/** The file in a data URI names the agent only once its id is known. */
async function noteNewUri(chain: Chain): Promise<void> {
  if ((await chain.newUri()) !== undefined)
    console.error(
      'The identity does not have the URI that the configuration gives now: `wardline chain set-uri` sets it.',
    )
}

const sameMoment = 'Another command is doing the same at the moment: run this one again to wait for it.'

const register = (options: SendOptions) =>
  withChain(async (chain) => {
    const { plan, send, done, higher } = await chain.planRegistration()
    if (plan) {
      const later = plan.uri.startsWith('data:')
        ? ['The file gets the id of the agent after the registration, by `wardline chain set-uri`.']
        : []
      await agree([...planLines(plan), `Points to ${plan.uri}`, ...fileLines(plan.file), ...later], options)
      await send()
    } else if (done.state === 'confirmed') {
      console.log(`Registered already, as agent ${done.result}.`)
      return noteNewUri(chain)
    } else await agreeAgain(higher, options)
    if (!options.wait) return
    await waitFor(chain, 'register')
    await noteNewUri(chain)
  })

const setUri = (options: SendOptions) =>
  withChain(async (chain) => {
    const open = await chain.openUri()
    let subject = open?.subject
    if (subject === undefined) {
      const { plan, send, ...planned } = await chain.planUri()
      const before = cutText(plan.before ?? '', maxShownUri, utf16Size) || 'none'
      const lines = [`Agent     ${plan.agentId}`, `Old URI   ${before}`, `New URI   ${plan.uri}`]
      await agree([...planLines(plan), ...lines, ...fileLines(plan.file)], options)
      if (!(await send())) throw new Failure(sameMoment, 'conflict', 'refused')
      subject = planned.subject
    } else {
      console.error('The URI is being changed already: nothing more is sent.')
      await agreeAgain(open?.higher, options)
    }
    if (options.wait) await waitFor(chain, 'set-uri', subject)
  })

const schema = (options: SendOptions) =>
  withChain(async (chain) => {
    const { isRegistered, plan, send, higher } = await chain.planSchema()
    if (isRegistered) return console.log('The schema is registered already.')
    if (plan) {
      await agree([...planLines(plan), `Schema    ${plan.schema}`], options)
      await send()
    } else await agreeAgain(higher, options)
    if (options.wait) await waitFor(chain, 'schema')
  })

const revoke = (uid: string, options: SendOptions) =>
  withChain(async (chain) => {
    const planned = await chain.planRevocation(uid)
    if (!planned) {
      const message = `No attestation ${uid} of this service: wardline chain status lists its uids.`
      throw new Failure(message, 'not_found', 'refused')
    }
    const { plan, send, done, higher } = planned
    if (plan) {
      await agree([...planLines(plan), `Revokes   the attestation ${uid} of ${plan.hash}`], options)
      await send()
    } else if (done.state === 'confirmed') return console.log('Revoked already.')
    else await agreeAgain(higher, options)
    if (options.wait) await waitFor(chain, 'revoke', uid)
  })

const status = ({ json }: { json?: boolean }) =>
  withChain(async (chain) => {
    const found = await chain.status()
    if (json) return console.log(safeJson(found, 2))
    const { identity, transactions } = found
    console.log(
      `Chain     ${found.chainId}${found.rpcChainId === found.chainId ? '' : `, but the RPC is of ${found.rpcChainId}`}`,
    )
    console.log(`Block     ${found.head}`)
    const money = found.balance === '0' ? 'without money: send it some, or nothing is sent' : `with ${found.balance}`
    console.log(`Wallet    ${found.wallet === null ? 'none' : `${found.wallet} ${money}`}`)
    const made = transactions.find(({ kind }) => kind === 'register')
    const onItsWay = made === undefined || made.state === 'failed' ? 'none' : `on its way: registration ${made.state}`
    console.log(`Identity  ${identity ? `agent ${identity.agent_id}, ${identity.status}` : onItsWay}`)
    if (found.newUri !== null) {
      const shown = cutText(identity?.uri || 'none', maxShownUri, utf16Size)
      console.log(
        `URI       ${sanitize(shown)}; the configuration gives another one, which wardline chain set-uri sets`,
      )
    }
    if (found.lastError !== null) console.log(`Waits     ${sanitize(found.lastError)}`)
    if (transactions.length === 0) return
    const rows = transactions.map(({ id, kind, state, tx_hash, result, error, revoked_at }) => [
      id,
      kind,
      revoked_at === null ? state : 'revoked',
      tx_hash ?? '',
      sanitize(error ?? result ?? ''),
    ])
    console.log(`\n${textTable([['Id', 'Kind', 'State', 'Transaction', 'Result'], ...rows])}`)
  })

const dropLines = ({ kind, nonce, counted, action, max_cost }: ChainDropPlan): string[] => [
  nonce === null
    ? `Drops     ${kind}, which is not sent yet`
    : `Drops     ${kind} with nonce ${nonce}; the chain counts ${counted}`,
  action === 'replace' ? 'Sends     an empty transaction with the same nonce' : 'Sends     nothing',
  `Costs     ${max_cost === null ? 'nothing' : `at most ${max_cost} of the currency of the chain`}`,
]

async function drop(id: string, options: ServiceFlags & { yes?: boolean }): Promise<void> {
  const { call } = await findService(options)
  const plan: ChainDropPlan = await call('planChainDrop', { params: { id } })
  await agree(dropLines(plan), options)
  const done = await call('dropChainTransaction', { params: { id }, body: { action: plan.action } })
  if (options.json) return console.log(safeJson(done, 2))
  console.log(
    plan.action === 'replace'
      ? 'Dropped: the service sends the empty transaction now; `wardline chain status` shows when it is confirmed.'
      : 'Dropped: the next transaction is sent.',
  )
}

type Verified = NonNullable<Awaited<ReturnType<typeof verifySelf>>>
type Score = Verified['wav']

const subjectLine = ({ subject, row }: Verified) =>
  subject === 'agent'
    ? `Agent ${row.agent_id} of ${row.agent_registry}, by ${row.agent_uri ?? 'its URI'}`
    : `Only the configured address ${row.url}: there is no on-chain agent`

function scoreLines(found: Verified): string[] {
  const { row, wav, wv, scored, not_checked } = found
  const line = (type: 'wav' | 'wv', { risk, notes, error }: Score) => [
    verificationTypes[type],
    String(risk ?? 'none'),
    notes,
    error === undefined ? '' : `${error} (${erc8126Errors[error]})`,
  ]
  const others = not_checked.filter((type) => type !== 'wav' && type !== 'wv')
  const rows = [
    line('wav', wav),
    line('wv', wv),
    ...others.map((type) => [verificationTypes[type], 'none', 'Applies, and is not checked by this service.', '']),
    [
      'Unified',
      String(row.unified_score ?? 'none'),
      scored.length === 0 ? 'Nothing has a score.' : scoredOver(scored),
      '',
    ],
  ]
  const table = textTable([['What', 'Risk', 'Published note', 'Error of ERC-8126'], ...rows])
  return [subjectLine(found), ...table.trimEnd().split('\n'), ...wav.details, ...wv.details]
}

/** Shows the scores of the agent, with the reasons for deductions. */
const check = ({ json }: { json?: boolean }) =>
  withLocalDatabase(async (deps) => {
    const found = (await verifySelf(deps))!
    const { row, wav, wv, subject, scored, not_checked } = found
    if (json) {
      const { unified_score: unified_risk_score, agent_registry, agent_id, agent_uri, agent_uri_hash } = row
      const { document_hash, wallet, url } = row
      const coded = (score: Score) =>
        score.error === undefined ? score : { ...score, error_code: erc8126Errors[score.error] }
      const about = { subject, agent_registry, agent_id, agent_uri, agent_uri_hash, document_hash, wallet, url }
      const scores = { unified_risk_score, scored, not_checked, wav: coded(wav), wv: coded(wv) }
      return console.log(safeJson({ ...about, ...scores }, 2))
    }
    for (const line of scoreLines(found)) console.log(sanitize(line))
  })

/** Posts the current scores; continues an interrupted run with the scores that it posted. */
const verify = (options: SendOptions) =>
  withChain(async (chain, deps) => {
    const open = await chain.openVerification()
    let subject = open?.subject
    if (subject === undefined) {
      const found = (await verifySelf(deps))!
      // Before the plan, which is refused without both scores.
      for (const line of scoreLines(found)) console.error(sanitize(line))
      const { plan, requestHash, send } = await chain.planVerification(found.row)
      const polarity = `${plan.response} of 100, the best: 100 minus the risk of ${found.row.unified_score}`
      const texts = [`Response  ${polarity}`, `Request   ${plan.request}`, `Report    ${plan.report}`]
      await agree(
        ['Two transactions, of which the second is not estimated yet:', ...planLines(plan), ...texts],
        options,
      )
      // Stored before sending: a posting without a record would never be shown.
      await found.notePosting(requestHash, plan.report)
      if (!(await send())) throw new Failure(sameMoment, 'conflict', 'refused')
      subject = requestHash
    } else {
      console.error('A verification is being posted already: nothing more is sent.')
      await agreeAgain(open?.higher, options)
    }
    if (!options.wait) return
    await waitFor(chain, 'validate', subject)
    await waitFor(chain, 'respond', subject)
  })

export function addChain(program: Command): void {
  const chain = program.command('chain').description('manage the on-chain identity and its transactions')
  const sending = (command: Command) =>
    command.option('--yes', 'send without asking').option('--no-wait', 'do not wait for the confirmations')
  chain
    .command('status', { isDefault: true })
    .description('show chain, wallet, identity and the last transactions')
    .option('--json', 'print JSON')
    .action(status)
  chain
    .command('check')
    .description('verify the on-chain agent now: its endpoints (WAV) and wallet (WV); 0 is the best score')
    .option('--json', 'print JSON')
    .action(check)
  sending(
    chain.command('register').description('register the identity (ERC-8004): shows transaction and cost, then asks'),
  ).action(register)
  sending(
    chain
      .command('set-uri')
      .description('change the URI of the identity to the configured one: shows both and the cost, then asks'),
  ).action(setUri)
  sending(
    chain.command('schema').description('register the schema of attestations at EAS, once for each chain'),
  ).action(schema)
  sending(
    chain
      .command('verify')
      .description('verify now, and post the scores to the validation registry: shows them and the cost, then asks'),
  ).action(verify)
  withService(
    chain
      .command('drop')
      .description('end an unconfirmed transaction that blocks the next ones: shows the plan and its cost, then asks')
      .argument('<id>', 'id, as chain status lists it')
      .option('--yes', 'drop without asking'),
  ).action(drop)
  sending(
    chain
      .command('revoke')
      .description('revoke an attestation: shows the transaction and its cost, then asks')
      .argument('<uid>', 'uid, as chain status lists it'),
  ).action(revoke)
}
