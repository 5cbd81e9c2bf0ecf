import { hash } from 'node:crypto'
import {
  type Attestation,
  answerLimits,
  attestationText,
  boundedText,
  parsedJson,
  plainEncoding,
  TrustSummary,
} from '@wardline/contract'
import { assertValid, openPublished } from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { sendHttp } from './service/send-http.ts'
import { textTable } from './text-table.ts'

interface VerifyOptions {
  rpc?: string
  eas?: string
  attester?: string
  json?: boolean
}

/** A summary comes from memory; who takes longer is away. */
const deadlineMs = 15_000
const hexOf = (digits: number) => new RegExp(`^0x[0-9a-fA-F]{${digits}}$`)

async function readSummary(base: string): Promise<TrustSummary> {
  const url = URL.parse(`${base.replace(/\/$/, '')}/api/public/trust`)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new Failure(`${base} is not a URL: it must begin with https:// or http://.`, 'usage', 'usage')
  const signal = AbortSignal.timeout(deadlineMs)
  const unreachable = (cause: unknown) =>
    new Failure(`${url.origin} does not answer: ${(cause as Error).message}`, 'unreachable', 'unreachable', { cause })
  const answer = await sendHttp(url, { method: 'GET', headers: plainEncoding, signal }).catch((fault) => {
    throw unreachable(fault)
  })
  const body = parsedJson(await boundedText(answer, answerLimits.other))
  if (answer.status !== 200)
    throw new Failure(`${url.origin} publishes no summary (status ${answer.status}).`, 'refused', 'refused')
  try {
    assertValid(TrustSummary, body)
  } catch (cause) {
    throw new Failure(`${url.origin} is not a Wardline server.`, 'unreachable', 'unreachable', { cause })
  }
  return body as TrustSummary
}

interface Verdict {
  period: string
  tag: string
  hash: string
  /** The hash is of what is published. */
  is_hash_right: boolean
  /** Null: not on a chain, or no node was asked. */
  on_chain: 'valid' | 'revoked' | 'missing' | null
}

type OnChain = (uid: string, hash: string) => Promise<'valid' | 'revoked' | undefined>

async function judge(item: Attestation, stateOf: OnChain | undefined): Promise<Verdict> {
  const is_hash_right = `0x${hash('sha256', attestationText(item), 'hex')}` === item.hash
  const asked = item.on_chain && stateOf && hexOf(64).test(item.on_chain.uid) && hexOf(64).test(item.hash)
  const missing = item.on_chain && stateOf ? ('missing' as const) : null
  const on_chain = asked ? ((await stateOf(item.on_chain!.uid, item.hash)) ?? 'missing') : missing
  return { period: item.period, tag: item.tag, hash: item.hash, is_hash_right, on_chain }
}

async function judgeAll(summary: TrustSummary, { rpc, eas, attester: given }: VerifyOptions): Promise<Verdict[]> {
  const { attestations, identity } = summary
  const attester = given ?? identity.wallet_address
  if (rpc === undefined) return Promise.all(attestations.map((item) => judge(item, undefined)))
  if (attester === null || !hexOf(40).test(attester))
    throw new Failure(
      'The summary names no wallet: give the one you expect with --attester <address>.',
      'usage',
      'usage',
    )
  const published = await openPublished({ rpcUrl: rpc, eas, attester })
  try {
    const verdicts: Verdict[] = []
    for (const item of attestations) verdicts.push(await judge(item, published.state))
    return verdicts
  } finally {
    published.close()
  }
}

async function verify(url: string, options: VerifyOptions): Promise<void> {
  const verdicts = await judgeAll(await readSummary(url), options)
  const wrong = verdicts.filter(
    ({ is_hash_right, on_chain }) => !is_hash_right || on_chain === 'missing' || on_chain === 'revoked',
  )
  if (options.json) console.log(safeJson({ ok: wrong.length === 0, attestations: verdicts }, 2))
  else {
    const rows = verdicts.map(({ period, tag, hash: text, is_hash_right, on_chain }) => [
      sanitize(period),
      sanitize(tag),
      sanitize(text),
      is_hash_right ? 'right' : 'WRONG',
      on_chain ?? (options.rpc === undefined ? 'not asked' : 'none'),
    ])
    console.log(textTable([['Week', 'Tag', 'Hash', 'Computed', 'On chain'], ...rows]))
  }
  if (wrong.length > 0)
    throw new Failure(`${wrong.length} of ${verdicts.length} attestations do not hold.`, 'not_verified', 'failed')
}

export function addAttest(program: Command): void {
  const attest = program.command('attest').description('verify the attestations that a service publishes')
  attest
    .command('verify')
    .description('compute the hashes of published attestations, and with --rpc compare them with the chain')
    .argument('<url>', 'address of the service, such as https://wardline.example.com')
    .option('--rpc <url>', 'JSON-RPC address of a node that you trust; default: hashes only')
    .option('--eas <address>', 'address of EAS; default: the known one of the chain')
    .option('--attester <address>', 'wallet that you expect; default: the one that the service names')
    .option('--json', 'print JSON')
    .action(verify)
}
