import { hash } from 'node:crypto'
import {
  type Attestation,
  answerLimits,
  attestationText,
  boundedText,
  endpoints,
  parsedJson,
  plainEncoding,
  SignedAttestation,
  TrustSummary,
} from '@wardline/contract'
import { assertValid, offChainFault, openPublished } from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { sendHttp } from './service/send-http.ts'
import { textTable } from './text-table.ts'

interface VerifyOptions {
  rpc?: string
  eas?: string
  attester?: string
  validationRegistry?: string
  reputationRegistry?: string
  agent?: string
  chain?: string
  json?: boolean
}

/** A summary comes from memory; who takes longer is away. */
const deadlineMs = 15_000
const hexOf = (digits: number) => new RegExp(`^0x[0-9a-fA-F]{${digits}}$`)

interface Published {
  origin: string
  status: number
  body: unknown
}

async function readPublic(base: string, path: string): Promise<Published> {
  const url = URL.parse(`${base.replace(/\/$/, '')}${path}`)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new Failure(`${base} is not a URL: it must begin with https:// or http://.`, 'usage', 'usage')
  const signal = AbortSignal.timeout(deadlineMs)
  const unreachable = (cause: unknown) =>
    new Failure(`${url.origin} does not answer: ${(cause as Error).message}`, 'unreachable', 'unreachable', { cause })
  const answer = await sendHttp(url, { method: 'GET', headers: plainEncoding, signal }).catch((fault) => {
    throw unreachable(fault)
  })
  return { origin: url.origin, status: answer.status, body: parsedJson(await boundedText(answer, answerLimits.other)) }
}

async function readSummary(base: string): Promise<TrustSummary> {
  const { origin, status, body } = await readPublic(base, endpoints.getTrust.path)
  if (status !== 200) throw new Failure(`${origin} publishes no summary (status ${status}).`, 'refused', 'refused')
  try {
    assertValid(TrustSummary, body)
  } catch (cause) {
    throw new Failure(`${origin} is not a Wardline server.`, 'unreachable', 'unreachable', { cause })
  }
  return body as TrustSummary
}

interface Verdict {
  period: string
  tag: string
  hash: string
  /** The hash is of what is published. */
  is_hash_right: boolean
  /** Who signed it, as the signature proves; null: it is not signed, or not validly. */
  signer: string | null
  /** Why the signed attestation is wrong; null: it is right, or there is none. */
  signature_fault: string | null
  /** Null: not on a chain, or no node was asked. */
  on_chain: 'valid' | 'revoked' | 'missing' | null
  /** A registry of ERC-8004 has the hash, but no document: an earlier version wrote it. */
  is_bare: boolean
}

/** Reads the signed attestation of an item and verifies it. Its uid makes the address, so no other host is asked. */
async function judgeSignature(
  base: string,
  item: Attestation,
  { attester }: VerifyOptions,
): Promise<Pick<Verdict, 'signer' | 'signature_fault'>> {
  const { off_chain: said } = item
  if (!said) return { signer: null, signature_fault: null }
  const wrong = (signature_fault: string) => ({ signer: null, signature_fault })
  const [, chain] = /^eip155:(\d{1,10})$/.exec(said.chain) ?? []
  if (chain === undefined) return wrong(`its chain ${said.chain} is not one of EIP-155`)
  const { status, body } = await readPublic(base, endpoints.getAttestation.path.replace(':uid', said.uid))
  if (status !== 200) return wrong(`the service does not have it (status ${status})`)
  try {
    assertValid(SignedAttestation, body)
  } catch {
    return wrong('it is not an off-chain attestation of version 2')
  }
  const file = body as SignedAttestation
  const { uid, contract } = said
  const expected = { uid, signer: attester ?? said.attester, chainId: Number(chain), contract }
  const fault = await offChainFault(file, { ...item, at: Date.parse(item.at) }, expected)
  return fault === undefined ? { signer: file.signer, signature_fault: null } : wrong(fault)
}

/** Undefined for text that is not Unicode, which has no hash. */
function computedHash(item: Attestation): string | undefined {
  try {
    return `0x${hash('sha256', attestationText(item), 'hex')}`
  } catch {
    return undefined
  }
}

async function judge(
  item: Attestation,
  signature: Pick<Verdict, 'signer' | 'signature_fault'>,
  stateOf: Chain['state'] | undefined,
): Promise<Verdict> {
  const is_hash_right = computedHash(item) === item.hash
  const { on_chain: said } = item
  let found: Awaited<ReturnType<Chain['state']>>
  if (said && stateOf) {
    const isAsked = [said.uid, said.tx_hash, item.hash].every((text) => hexOf(64).test(text))
    found = isAsked ? await stateOf(said, item.hash) : 'missing'
  }
  const { period, tag, hash: text } = item
  const verdict = { period, tag, hash: text, is_hash_right, ...signature, is_bare: false }
  if (typeof found !== 'object') return { ...verdict, on_chain: found ?? null }
  return { ...verdict, on_chain: found.isRevoked ? 'revoked' : 'valid', is_bare: found.isBare }
}

/** What a summary says of its posted scores, and whether it and the chain say the same. */
interface PostedVerdict {
  request_hash: string
  unified_risk_score: number | null
  /** The report is of this request, and its two numbers say the same. */
  is_report_right: boolean
  /** Null: no node was asked, or no registry was named. */
  on_chain: 'valid' | 'missing' | null
}

interface Verdicts {
  attestations: Verdict[]
  verification: PostedVerdict | null
}

type Chain = Awaited<ReturnType<typeof openPublished>>

async function judgePosted(summary: TrustSummary, published: Chain | undefined): Promise<PostedVerdict | null> {
  const { request_hash, report } = summary.verification.on_chain
  if (request_hash === null) return null
  const said = parsedJson(report ?? '') as Record<string, unknown> | null | undefined
  const { unified_risk_score: risk, response } = said ?? {}
  const is_report_right = said?.request_hash === request_hash && typeof risk === 'number' && response === 100 - risk
  const wrong = { request_hash, unified_risk_score: null, is_report_right: false, on_chain: null }
  if (!is_report_right || !hexOf(64).test(request_hash)) return wrong
  const isThere = await published?.hasReport(request_hash, report!, 100 - risk)
  const on_chain = isThere === undefined ? null : isThere ? 'valid' : 'missing'
  return { request_hash, unified_risk_score: risk, is_report_right, on_chain }
}

/** The chain that the reader expects, else the one of the identity that the summary names. */
function expectedChain({ identity }: TrustSummary, { chain }: VerifyOptions): number | undefined {
  const named = chain ?? /^eip155:(\d+):/.exec(identity.agent_registry ?? '')?.[1]
  if (named !== undefined && !/^\d{1,10}$/.test(named))
    throw new Failure(`--chain ${named} is not a chain id; an example is 84532.`, 'usage', 'usage')
  return named === undefined ? undefined : Number(named)
}

async function openNode(summary: TrustSummary, rpcUrl: string, options: VerifyOptions): Promise<Chain> {
  const attester = options.attester ?? summary.identity.wallet_address
  if (attester === null || !hexOf(40).test(attester))
    throw new Failure(
      'The summary names no wallet: give the one you expect with --attester <address>.',
      'usage',
      'usage',
    )
  const { eas, validationRegistry, reputationRegistry } = options
  const addresses = {
    '--eas': eas,
    '--validation-registry': validationRegistry,
    '--reputation-registry': reputationRegistry,
  }
  for (const [option, address] of Object.entries(addresses)) {
    if (address !== undefined && !hexOf(40).test(address))
      throw new Failure(`${option} ${address} must be 0x and 40 hexadecimal digits.`, 'usage', 'usage')
  }
  const expected = expectedChain(summary, options)
  const agentId = options.agent ?? summary.identity.agent_id ?? undefined
  if (agentId !== undefined && !/^\d{1,78}$/.test(agentId))
    throw new Failure(`--agent ${agentId} must be a whole number, such as 0.`, 'usage', 'usage')
  const published = await openPublished({ rpcUrl, attester, agentId, eas, validationRegistry, reputationRegistry })
  if (expected === undefined || published.chainId === expected) return published
  published.close()
  const message = `The RPC serves chain ${published.chainId}, the attestations are on chain ${expected}: give a node of that chain with --rpc.`
  throw new Failure(message, 'wrong_chain', 'refused')
}

async function judgeAll(base: string, summary: TrustSummary, options: VerifyOptions): Promise<Verdicts> {
  const published = options.rpc === undefined ? undefined : await openNode(summary, options.rpc, options)
  try {
    const attestations: Verdict[] = []
    for (const item of summary.attestations)
      attestations.push(await judge(item, await judgeSignature(base, item, options), published?.state))
    return { attestations, verification: await judgePosted(summary, published) }
  } finally {
    published?.close()
  }
}

/** Attestations that nothing shows to be by the expected attester. */
function unprovenParts({ attestations }: Verdicts): string[] {
  const count = attestations.filter(({ signer, on_chain }) => signer === null && on_chain !== 'valid').length
  return count > 0 ? [`${count} attestations that are not signed`] : []
}

/** What a summary says is on a chain and no node was asked about, each with the option that was missing. */
function uncheckedParts(summary: TrustSummary, { attestations, verification }: Verdicts): string[] {
  const left = summary.attestations.filter(({ on_chain }, place) => on_chain && attestations[place]!.on_chain === null)
  const countOf = (kind: 'feedback' | 'validation') => left.filter(({ on_chain }) => on_chain!.sink === kind).length
  const [feedback, validations] = [countOf('feedback'), countOf('validation')]
  return [
    ...(feedback > 0 ? [`${feedback} attestations as feedback: give the agent with --agent <id>`] : []),
    ...(validations > 0 ? [`${validations} attestations as validations: give --validation-registry <address>`] : []),
    ...(verification?.on_chain === null ? ['the posted verification: give --validation-registry <address>'] : []),
  ]
}

async function verify(url: string, options: VerifyOptions): Promise<void> {
  const { attester } = options
  if (attester !== undefined && !hexOf(40).test(attester))
    throw new Failure(`--attester ${attester} must be 0x and 40 hexadecimal digits.`, 'usage', 'usage')
  const summary = await readSummary(url)
  const { attestations, verification } = await judgeAll(url, summary, options)
  const wrong = attestations.filter(
    ({ is_hash_right, signature_fault, on_chain }) =>
      !is_hash_right || signature_fault !== null || on_chain === 'missing' || on_chain === 'revoked',
  )
  const isPostedWrong = verification !== null && (!verification.is_report_right || verification.on_chain === 'missing')
  const ok = wrong.length === 0 && !isPostedWrong
  if (options.json) console.log(safeJson({ ok, attestations, verification }, 2))
  else {
    const notAsked = options.rpc === undefined ? 'not asked' : 'none'
    const rows = attestations.map(({ period, tag, hash: text, is_hash_right, signer, signature_fault, on_chain }) => [
      sanitize(period),
      sanitize(tag),
      sanitize(text),
      is_hash_right ? 'right' : 'WRONG',
      signature_fault === null ? (signer ?? 'nobody') : 'WRONG',
      on_chain ?? notAsked,
    ])
    console.log(textTable([['Week', 'Tag', 'Hash', 'Computed', 'Signed by', 'On chain'], ...rows]))
    for (const { period, tag, signature_fault } of attestations)
      if (signature_fault !== null) console.log(sanitize(`${period} ${tag}: ${signature_fault}`))
    if (attester === undefined && attestations.some(({ signer }) => signer !== null))
      console.log('The service names its signers itself: give the one you expect with --attester <address>.')
    const bare = attestations.filter(({ is_bare }) => is_bare).length
    if (bare > 0) console.log(`${bare} without a document: an earlier version wrote their hash itself on the chain.`)
    if (verification) {
      const { unified_risk_score: risk, is_report_right, on_chain } = verification
      const report = is_report_right ? `risk ${risk} of 100, scored by the service itself` : 'WRONG'
      console.log(`Verification: ${report}; on chain: ${on_chain ?? 'not asked'}`)
    }
  }
  const verdicts = { attestations, verification }
  const unchecked = [
    ...(options.rpc === undefined ? [] : uncheckedParts(summary, verdicts)),
    ...(attester === undefined ? [] : unprovenParts(verdicts)),
  ]
  if (wrong.length > 0)
    throw new Failure(`${wrong.length} of ${attestations.length} attestations are invalid.`, 'not_verified', 'failed')
  if (isPostedWrong) throw new Failure('The posted verification is invalid.', 'not_verified', 'failed')
  if (unchecked.length > 0) throw new Failure(`Not checked: ${unchecked.join('; ')}.`, 'unchecked', 'unconfirmed')
}

export function addAttest(program: Command): void {
  const attest = program.command('attest').description('verify the attestations that a service publishes')
  attest
    .command('verify')
    .description('verify hashes and signatures of published attestations, and with --rpc compare them with the chain')
    .argument('<url>', 'address of the service, such as https://wardline.example.com')
    .option('--rpc <url>', 'JSON-RPC address of a node that you trust; default: hashes and signatures only')
    .option('--eas <address>', 'address of EAS; default: its known address on the chain')
    .option('--attester <address>', 'expected signer; default: those in the summary')
    .option(
      '--validation-registry <address>',
      'expected registry of verifications and validations; default: not checked',
    )
    .option('--reputation-registry <address>', 'registry of feedback; default: the known registry of the chain')
    .option('--agent <id>', 'agent of the feedback; default: the agent in the summary')
    .option('--chain <id>', 'expected chain; default: the chain of the published identity')
    .option('--json', 'print JSON')
    .action(verify)
}
