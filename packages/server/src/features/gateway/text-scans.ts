import { eventTypes } from '@wardline/contract'
import { keyFormatOf, keySource, keyTextSource, privateKeySource } from '@wardline/policy'
import type { Deps } from '../../deps.ts'
import type { Principal } from '../../http/auth.ts'
import { type RoomOwner, SharedRoom } from '../../shared-room.ts'
import { type Piece, type Slices, type WorkBudget, workLane } from '../../work-turns.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { DecoyChecks } from '../honeypots/check.ts'
import { withoutEscapes } from '../honeypots/text-escapes.ts'
import { AnswerTexts } from './answer-texts.ts'
import type { CallBytes } from './call-body.ts'
import type { AnswerReader } from './exchange.ts'
import { KeyReader, KeyTexts, ownCopy, readingUnits } from './key-texts.ts'

const limits = {
  /** Bodies and texts that wait for their search, together. What comes then is passed on and not searched. */
  waitingBytes: 128 * 1024 * 1024,
  /** What the searches of open answers keep, together: one that puts 200 texts together can keep a megabyte. */
  answerBytes: 128 * 1024 * 1024,
  /** Of a secret, to tell it from others. */
  secretLength: 200,
  /** Of an answer that is behind its reading: the next bytes wait for it. Ordinary answers are read at once. */
  unreadBytes: 256 * 1024,
  /** Texts of one answer that wait: a search takes milliseconds, and a model does not write so fast. */
  waitingTexts: 32,
  /** Work for one call, some two seconds: a hundred times that of a long conversation. */
  units: 1_000_000_000,
  /** Different secrets that are counted in one call. */
  secrets: 1_000,
} as const

/** Of a body, read at once. */
const sliceBytes = 16 * 1024
/** Cost per character of comparing a text with the formats of secrets. */
const unitsOfFormats = 20

/** Of a text, which may have others than those of ASCII. */
const bytesOfCharacter = 2

type Direction = 'prompt' | 'answer'

interface ScanParts {
  decoyChecks: Pick<DecoyChecks, 'checkModelText' | 'noteUnsearched'>
  countedReports: Pick<CountedReports, 'note'>
}

interface ScannedCall {
  instanceId: string
  principal: Principal
  owner: RoomOwner
  address: string | null
  upstream: string
  model: string | null
}

type Found = Record<Direction, Record<string, number>>

const secretPattern = new RegExp(`${privateKeySource}|${keySource}`, 'g')
/** Words and names begin like keys too: a key has a long part without a separator that no word is. */
const keyPart = /(?=[A-Za-z]{0,30}[0-9])[A-Za-z0-9]{12,}|(?=[a-z0-9]{0,20}[A-Z])(?=[A-Z0-9]{0,20}[a-z])[A-Za-z0-9]{30,}/

/** Returns the secrets of known formats in a text, each with its format. */
function* secretsIn(text: string): Generator<[format: string, secret: string]> {
  for (const { 0: match, index } of text.matchAll(secretPattern)) {
    if (match.startsWith('-----')) {
      // All keys have the same first line.
      const body = text.slice(index + match.length, index + match.length + 100)
      yield ['private_key', body.trimStart().slice(0, 40)]
    } else if (match.length >= 20 && keyPart.test(match)) yield [keyFormatOf(match), match]
  }
}

/** No name of a model or a tool has so long a part with a digit; keys do, also behind other letters. */
const longPart = /(?=[A-Za-z+/]*[0-9])[A-Za-z0-9+/]{32,}/
const keyText = new RegExp(keyTextSource, 'g')

/** Returns a name that a call has, for its event; one that is or has a key, also behind other letters, is left out. */
export function nameWithoutKeys(name: string): string {
  const plain = withoutEscapes(name)
  const hasKey = [...plain.matchAll(keyText)].some(([key]) => key.length >= 20 && keyPart.test(key))
  return hasKey || longPart.test(name) || plain.includes('PRIVATE KEY-----') ? '(has a key)' : name
}

/** Looks for decoy keys and secrets in what passes the gateway, after it has passed. Keeps nothing of it. */
export class TextScans {
  readonly #parts: ScanParts
  readonly #log: Deps['log']
  readonly #running = new Set<Promise<void>>()
  readonly room = new SharedRoom(limits.waitingBytes)
  readonly answerRoom: SharedRoom

  constructor({ log }: Pick<Deps, 'log'>, parts: ScanParts, answerBytes: number = limits.answerBytes) {
    this.#log = log
    this.#parts = parts
    this.answerRoom = new SharedRoom(answerBytes)
  }

  /** Begins to scan a call. `ended`: resolves when its answer has ended. */
  open(call: ScannedCall, body: CallBytes, ended: Promise<unknown>): { readAnswer(isStream: boolean): AnswerReader } {
    const scan = new CallScan(call, this.#parts, this)
    const running = scan.finish(scan.readPrompt(body), ended).finally(() => this.#running.delete(running))
    this.#running.add(running)
    return scan
  }

  logFault(fault: unknown): void {
    this.#log.warn({ err: fault }, 'a part of a call of a model was not searched for decoys')
  }

  async whenIdle(): Promise<void> {
    await Promise.all(this.#running)
  }
}

class CallScan {
  readonly #call: ScannedCall
  readonly #parts: ScanParts
  readonly #scans: TextScans
  readonly #piece: Piece
  readonly #budget: WorkBudget
  /** Decoys that are recorded as touched by this call. */
  readonly #recorded = new Set<string>()
  readonly #secrets = new Set<string>()
  #secretsLength = 0
  readonly #found: Found = { prompt: {}, answer: {} }
  /** The answer as far as it is not read yet. */
  readonly #unread: Buffer[] = []
  #unreadBytes = 0
  #answer: AnswerTexts | undefined
  /** Bytes of the room of answers that this call has taken. */
  #held = 0
  #reading: Promise<void> | undefined
  /** Texts of the answer that are not searched yet. */
  readonly #waiting: string[] = []
  #searching: Promise<void> | undefined

  constructor(call: ScannedCall, parts: ScanParts, scans: TextScans) {
    this.#call = call
    this.#parts = parts
    this.#scans = scans
    this.#piece = workLane.open(`calls of models of ${call.principal.keyId}`, { max: Infinity })
    this.#budget = this.#piece.budget(Number.MAX_SAFE_INTEGER)
  }

  /** Resolves when prompt and answer are searched. Never rejects. Does not hold the body, as an answer can take minutes. */
  async finish(promptRead: Promise<void>, ended: Promise<unknown>): Promise<void> {
    await promptRead
    await ended
    await this.#reading
    await this.#endAnswer()
    await this.#searching
    this.#piece.end()
    this.#report()
  }

  readAnswer(isStream: boolean): AnswerReader {
    const texts = new KeyTexts((text) => this.#waitFor(text))
    const onRead = () => {
      // What was found so far is searched while the answer goes on, so that a suspension can cut it.
      if (!this.#searching) texts.flush()
    }
    this.#answer = new AnswerTexts(texts, isStream, onRead, () => this.#noteUnsearched())
    return (chunk) => this.#takeAnswer(chunk)
  }

  #takeAnswer(chunk: Buffer): Promise<void> | undefined {
    if (!this.#answer) return undefined
    if (this.#piece.spent() > limits.units || !this.#hold(chunk.length)) {
      this.#leaveAnswer()
      return undefined
    }
    this.#unread.push(chunk)
    this.#unreadBytes += chunk.length
    this.#reading ??= this.#readAnswer()
    return this.#unreadBytes > limits.unreadBytes ? this.#reading : undefined
  }

  async #readAnswer(): Promise<void> {
    for (let chunk = this.#unread.shift(); chunk; chunk = this.#unread.shift()) {
      await this.#inTurns(this.#answer?.read(chunk, this.#budget))
      this.#unreadBytes -= chunk.length
      if (!this.#hold(0)) this.#leaveAnswer()
    }
    this.#reading = undefined
  }

  async #endAnswer(): Promise<void> {
    await this.#inTurns(this.#answer?.end(this.#budget))
    this.#answer = undefined
    this.#hold(0)
  }

  /** Takes the room for what is kept of the answer, and some bytes more. Returns false if there is none. */
  #hold(more: number): boolean {
    const { answerRoom } = this.#scans
    const { owner } = this.#call
    const characters = this.#answer ? this.#answer.held + this.#secretsLength : 0
    const wanted = more + this.#unreadBytes + bytesOfCharacter * characters
    const isHeld = wanted <= this.#held || answerRoom.take(wanted - this.#held, owner)
    if (!isHeld) return false
    if (wanted < this.#held) answerRoom.give(this.#held - wanted, owner)
    this.#held = wanted
    return true
  }

  /** Searches no more of the answer. */
  #leaveAnswer(): void {
    this.#answer = undefined
    this.#noteUnsearched()
    this.#hold(0)
  }

  async #inTurns(work: Slices<void> | undefined): Promise<void> {
    try {
      if (work) await this.#piece.inTurns(work)
    } catch (fault) {
      this.#scans.logFault(fault)
      this.#leaveAnswer()
    }
  }

  async readPrompt(body: CallBytes): Promise<void> {
    const { owner } = this.#call
    if (!this.#scans.room.take(body.length, owner)) {
      this.#noteUnsearched()
      return
    }
    try {
      await this.#searchPrompt(body)
    } catch (fault) {
      this.#noteFault(fault)
    } finally {
      this.#scans.room.give(body.length, owner)
    }
  }

  async #searchPrompt(body: CallBytes): Promise<void> {
    const texts: string[] = []
    const found = new KeyTexts((text) => texts.push(text))
    const reader = new KeyReader(found)
    for (const block of body.blocks) {
      await this.#piece.inTurns(readBlock(block, reader, this.#budget))
      for (const text of texts.splice(0)) await this.#search(text, 'prompt')
    }
    reader.end()
    found.flush()
    for (const text of texts) await this.#search(text, 'prompt')
  }

  #waitFor(text: string): void {
    if (this.#waiting.length >= limits.waitingTexts || !this.#scans.room.take(text.length, this.#call.owner)) {
      this.#noteUnsearched()
      return
    }
    this.#waiting.push(text)
    this.#searching ??= this.#searchWaiting()
  }

  async #searchWaiting(): Promise<void> {
    for (let text = this.#waiting.shift(); text !== undefined; text = this.#waiting.shift()) {
      this.#scans.room.give(text.length, this.#call.owner)
      await this.#search(text, 'answer')
    }
    this.#searching = undefined
  }

  get #asking() {
    const { instanceId, principal, address } = this.#call
    return { meta: { instance_id: instanceId }, principal, address }
  }

  #noteUnsearched(): void {
    this.#parts.decoyChecks.noteUnsearched(this.#asking)
  }

  async #search(text: string, direction: Direction): Promise<void> {
    if (this.#piece.spent() > limits.units) {
      this.#noteUnsearched()
      return
    }
    const check = { ...this.#asking, piece: this.#piece }
    try {
      await this.#piece.inTurns(this.#countSecrets(text, direction))
      await this.#parts.decoyChecks.checkModelText(text, direction, check, this.#recorded)
    } catch (fault) {
      // For example the database is away: the rest is searched nevertheless.
      this.#noteFault(fault)
    }
  }

  #noteFault(fault: unknown): void {
    this.#noteUnsearched()
    this.#scans.logFault(fault)
  }

  *#countSecrets(text: string, direction: Direction): Slices<void> {
    this.#budget.count(text.length * unitsOfFormats)
    const counts = this.#found[direction]
    for (const [format, secret] of secretsIn(withoutEscapes(text))) {
      const known = ownCopy(`${direction} ${secret.slice(0, limits.secretLength)}`)
      if (this.#secrets.has(known) || this.#secrets.size >= limits.secrets) continue
      this.#secrets.add(known)
      this.#secretsLength += known.length
      counts[format] = (counts[format] ?? 0) + 1
    }
    if (this.#budget.isSliceOver()) yield
  }

  /** Reports the formats of secrets: those of a call in one event, and calls with the same formats once a minute. */
  #report(): void {
    const { prompt, answer } = this.#found
    const [sent, received] = [prompt, answer].map((counts) => Object.keys(counts).sort())
    if (sent!.length + received!.length === 0) return
    const { instanceId, principal, upstream, model } = this.#call
    const where = [
      ...(sent!.length > 0 ? [`in the prompt: ${sent!.join(', ')}`] : []),
      ...(received!.length > 0 ? [`in the answer: ${received!.join(', ')}`] : []),
    ].join('; ')
    const { keyId } = principal
    this.#parts.countedReports.note(
      { kind: eventTypes.modelSecret, owner: keyId, name: `${instanceId} ${where}` },
      (count) => ({
        severity: 'warning',
        event_type: eventTypes.modelSecret,
        description: `${count === 1 ? 'A call of a model has' : `${count} calls of models have`} secrets ${where}`,
        instance_id: instanceId,
        metadata: { upstream, model, key_id: keyId, prompt, answer, occurrences: count },
      }),
    )
  }
}

function* readBlock(block: Buffer, reader: KeyReader, budget: WorkBudget): Slices<void> {
  for (let start = 0; start < block.length; start += sliceBytes) {
    const part = block.toString('latin1', start, start + sliceBytes)
    reader.push(part)
    budget.count(readingUnits(part))
    if (budget.isSliceOver()) yield
  }
}
