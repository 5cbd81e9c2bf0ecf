import type { ActiveFaults } from './active-faults.ts'
import { type Ended, listen } from './control-stream.ts'
import { readDrill } from './drill.ts'
import type { Enforcer } from './enforcer.ts'
import { MonitorError } from './faults.ts'
import type { KillSwitch } from './kill-switch.ts'
import type { Settings } from './options.ts'
import { backoff, jittered, type Pace } from './pace.ts'
import { Repeat } from './repeat.ts'
import { type Answer, isPassing, isRefused, isSuccess, noAnswer, type Service, unsigned } from './service.ts'
import { openTextVerifier, openVerifier, signedAnswer, type VerifyText } from './signed-control.ts'
import {
  type ControlState,
  type Heartbeat,
  isNewSuspension,
  stateFromPoll,
  stateFromStream,
  type Verify,
} from './wire.ts'

interface ControlLinkOptions {
  service: Service
  faults: ActiveFaults
  settings: Settings
  pace: Pace
  killSwitch: KillSwitch
  /** Kinds of messages of the control stream that are understood, separated by commas. */
  understands: string
  /** Called with the answer to each heartbeat and poll. */
  hear(answer: Answer): Promise<void> | void
  /** Called with each message of the control stream that is no drill. Returns whether it is no state either. */
  notice(text: string): boolean
  enforcer?: Enforcer
  /** Called when the service suspends the agent at a version that is not higher than the one applied as active. */
  onMismatch(applied: number, received: number): void
}

/**
 * Receives kills and resumes, and sends heartbeats. Always uses push and poll together: a stream may hang unnoticed,
 * and polling alone is slow.
 */
export class ControlLink {
  readonly #options: ControlLinkOptions
  readonly #verifier: Promise<Verify | undefined>
  readonly #drillVerifier: Promise<VerifyText | undefined>
  readonly #bootId = crypto.randomUUID()
  #isStreamOpen = false
  #missedBeats = 0
  /** Answer to the heartbeat in flight, or to the last one. */
  #beating: Promise<Answer> | undefined
  #lostStreams = 0
  #polling: Repeat | undefined
  /** Answer to the poll in flight, or to the last one. */
  #polled: Promise<Answer> | undefined
  /** Version of the last suspension that the header of an answer announced, and when one last caused a poll. */
  #announced = 0
  #followedAt = Number.NEGATIVE_INFINITY
  /** Version of a suspension in the last poll that contradicted the known state. */
  #contradicting: number | undefined
  /** Highest applied version that the service knows of. */
  #acknowledged = 0
  #acknowledging: Promise<void> | undefined
  /** Nonces to answer: the one in flight and the latest one received since. */
  #drills: string[] = []

  constructor(options: ControlLinkOptions) {
    this.#options = options
    this.#verifier = openVerifier(options.settings.publicKey, options.settings.instanceId)
    this.#drillVerifier = openTextVerifier(options.settings.publicKey)
  }

  get isStreamOpen(): boolean {
    return this.#isStreamOpen
  }

  /** Sends one heartbeat and polls once. Returns whether the service answered with the state. */
  async ask(): Promise<boolean> {
    const [, first] = await Promise.all([this.#beat(), this.#poll()])
    // Until its first heartbeat, an instance has no state and the poll returns 404.
    const answer = first.status === 404 ? await this.#poll() : first
    // The first call is decided by the policies that hold now.
    await this.#options.hear(answer)
    return isSuccess(answer)
  }

  /** Sends heartbeats, polls and listens until the signal aborts. */
  follow(signal: AbortSignal): void {
    const { pace, service, killSwitch } = this.#options
    new Repeat(() => this.#keepBeating(), jittered(pace.heartbeat), signal)
    this.#polling = new Repeat(() => this.#keepPolling(), jittered(pace.pollWithoutStream), signal)
    const announcements = new Repeat(() => this.#followAnnouncement(), Number.POSITIVE_INFINITY, signal)
    service.onSuspended = (version) => {
      if (!isNewSuspension(version, killSwitch.controlState)) return
      this.#announced = version
      announcements.within(Math.max(0, this.#followedAt + pace.announced - performance.now()))
    }
    new Repeat(() => this.#keepListening(signal), 0, signal)
  }

  /**
   * Announces the shutdown, so that the service does not take the silence for an outage. Only if the last heartbeat
   * succeeded.
   */
  async leave(): Promise<void> {
    const last = await this.#beating
    if (last && isSuccess(last)) await this.#send(true)
  }

  #beat(): Promise<Answer> {
    this.#beating = this.#send(false)
    return this.#beating
  }

  async #send(leaving: boolean): Promise<Answer> {
    const { service, pace, settings, killSwitch, hear, enforcer } = this.#options
    const heartbeat: Heartbeat = {
      instance_id: settings.instanceId,
      name: settings.name,
      agent_type: settings.agentType,
      version: settings.version,
      fail_mode: settings.failMode,
      // The SDK in a supervised agent sends one: two would look like a copy of the agent.
      boot_id: enforcer ? undefined : this.#bootId,
      tags: settings.tags && [...settings.tags],
      parent_instance_id: settings.parent,
      // It counts as an acknowledgement, which an enforcer sends with its evidence.
      control_version: enforcer && killSwitch.version !== undefined ? this.#acknowledged : killSwitch.version,
      ...(leaving ? { leaving } : {}),
    }
    const body = JSON.stringify({ ...heartbeat, supervisor: enforcer?.presence() })
    const answer = await service.call('heartbeat', { body, timeoutMs: pace.request })
    void hear(answer)
    this.#judge('heartbeat', answer)
    if (isSuccess(answer) && heartbeat.control_version === killSwitch.version) {
      this.#acknowledged = Math.max(this.#acknowledged, heartbeat.control_version ?? 0)
    }
    return answer
  }

  async #keepBeating(): Promise<number> {
    const { pace } = this.#options
    const answer = await this.#beat()
    if (isRefused(answer)) return jittered(pace.refused)
    if (isSuccess(answer)) this.#missedBeats = 0
    else return Math.max(answer.retryAfterMs ?? 0, backoff(pace, this.#missedBeats++))
    return jittered(pace.heartbeat)
  }

  #poll(): Promise<Answer> {
    this.#polled = this.#askState()
    return this.#polled
  }

  async #askState(): Promise<Answer> {
    const { service, pace, settings, killSwitch, hear } = this.#options
    const verify = await this.#verifier
    const { version, isFromService, controlState: known } = killSwitch
    const given = await service.call(`instances/${settings.instanceId}/status`, {
      // A state that only the file gave may differ from the service's.
      headers: isFromService ? { 'if-none-match': `W/"${version}"` } : {},
      timeoutMs: pace.request,
    })
    const answer = signedAnswer(given, verify, known)
    void hear(answer)
    // 404 means that the instance is not registered yet; the next heartbeat registers it.
    if (answer.status !== 404) this.#judge('poll', answer)
    if (answer.status === 304 && isFromService) this.#noteContact()
    if (answer.status === 200) {
      const received = stateFromPoll(answer.body, answer.header('etag'))
      if (!received) this.#options.faults.raise('etag', noVersion)
      else if (killSwitch.version === version && killSwitch.contradicts(received) && !this.#isReplay(received))
        this.#takeContradiction(received)
      else this.#take(received)
    }
    return answer
  }

  async #keepPolling(): Promise<number> {
    const { pace } = this.#options
    let answer = await this.#poll()
    if (answer.status === 404 && isSuccess(await this.#beat())) answer = await this.#poll()
    if (isRefused(answer)) return jittered(pace.refused)
    const wait = jittered(this.#isStreamOpen && isSuccess(answer) ? pace.poll : pace.pollWithoutStream)
    return Math.max(answer.retryAfterMs ?? 0, wait)
  }

  /** Polls because the header of an answer announced a suspension, unless the poll in flight brings it. */
  async #followAnnouncement(): Promise<number> {
    const { killSwitch, pace } = this.#options
    await this.#polled
    const version = this.#announced
    if (isNewSuspension(version, killSwitch.controlState)) {
      this.#followedAt = performance.now()
      await this.#poll()
      // No answer, or one of a process of the service that does not know of the kill yet.
      const isMissing = isNewSuspension(version, killSwitch.controlState)
      if (isMissing) this.#polling?.within(jittered(pace.pollWithoutStream))
    }
    return Number.POSITIVE_INFINITY
  }

  /** Listens over one connection to the control stream. Returns the milliseconds until the next connection. */
  async #keepListening(signal: AbortSignal): Promise<number> {
    const { service, settings, pace, faults, understands, notice } = this.#options
    const { instanceId } = settings
    const [verify, verifyDrill] = await Promise.all([this.#verifier, this.#drillVerifier])
    const startedAt = performance.now()
    const ended = await listen({
      service,
      path: `instances/${instanceId}/control?understands=${understands}`,
      pace,
      signal,
      onData: (text) => {
        const { isDrill, nonce } = readDrill(text, instanceId, verifyDrill)
        if (nonce !== undefined) void this.#answerDrill(nonce)
        if (isDrill || notice(text)) return
        const received = stateFromStream(text, instanceId, verify)
        if (!received) return
        this.#isStreamOpen = received !== 'unsigned'
        if (received === 'unsigned') {
          faults.raise('stream signature', service.explain(noAnswer(unsigned)))
          // The unsigned message may have replaced a kill, so poll soon.
          this.#polling?.within(jittered(pace.pollWithoutStream))
          return
        }
        faults.clear('stream')
        faults.clear('stream signature')
        this.#take(received)
        // The message may be old and delayed; a poll returns the current state.
        if (this.#options.killSwitch.contradicts(received)) this.#polling?.within(jittered(pace.pollWithoutStream))
      },
      onAlive: () => {
        // Keepalives are not signed, so with a public key they are no contact.
        if (this.#isStreamOpen && !verify) this.#noteContact()
      },
    })
    const wasOpen = this.#isStreamOpen
    this.#isStreamOpen = false
    if (signal.aborted) return Number.POSITIVE_INFINITY
    this.#polling?.within(jittered(pace.pollWithoutStream))
    return this.#reconnectAfter(ended, wasOpen, performance.now() - startedAt)
  }

  #reconnectAfter(ended: Ended, wasOpen: boolean, lastedMs: number): number {
    const { pace, faults, service } = this.#options
    if (isRefused(ended)) {
      faults.raise('stream', service.explain(ended))
      return jittered(pace.refused)
    }
    // Keep the backoff for streams that end right after they start, for example behind a proxy that cuts streams.
    if (wasOpen && lastedMs > pace.streamSilence / 2) this.#lostStreams = 0
    return Math.max(ended.retryMs ?? 0, backoff(pace, this.#lostStreams++))
  }

  /**
   * With a public key: whether the state is older than the last one from the service. Such a state is a recorded copy
   * and does not count as contact.
   */
  #isReplay({ version }: ControlState): boolean {
    const { settings, killSwitch } = this.#options
    const isLive = settings.publicKey !== undefined && killSwitch.isFromService
    return isLive && version < (killSwitch.version ?? 0)
  }

  #take(received: ControlState): void {
    const { killSwitch, faults } = this.#options
    faults.clear('etag')
    if (this.#isReplay(received)) {
      faults.raise('version', olderState(received.version, killSwitch.version))
      return
    }
    const isCurrent = killSwitch.take(received)
    this.#contradicting = undefined
    if (isCurrent) faults.clear('version')
    else faults.raise('version', olderState(received.version, killSwitch.version))
    void this.#acknowledge()
  }

  /**
   * Applies a suspension that contradicts the known state. After a resume, one process of the service may learn of it a
   * second later than another, so a state from the service is replaced only when the next poll repeats the contradiction.
   */
  #takeContradiction(received: ControlState): void {
    const { killSwitch, onMismatch, pace } = this.#options
    const { version = 0, isFromService } = killSwitch
    if (isFromService && this.#contradicting !== received.version) {
      this.#contradicting = received.version
      this.#polling?.within(jittered(pace.pollWithoutStream))
      return
    }
    this.#contradicting = undefined
    this.#acknowledged = 0
    killSwitch.takeInstead(received)
    onMismatch(version, received.version)
    void this.#acknowledge()
  }

  #noteContact(): void {
    this.#options.killSwitch.noteContact()
    void this.#acknowledge()
  }

  /** Acknowledges the applied version. After a transient failure, the next contact retries. */
  #acknowledge(): Promise<void> {
    this.#acknowledging ??= this.#sendAcknowledgements().finally(() => {
      this.#acknowledging = undefined
    })
    return this.#acknowledging
  }

  async #sendAcknowledgements(): Promise<void> {
    const { service, killSwitch, settings, pace, enforcer } = this.#options
    for (;;) {
      const { version = 0 } = killSwitch
      if (version <= this.#acknowledged) return
      const evidence = await enforcer?.apply()
      if (version !== killSwitch.version) continue
      const body = JSON.stringify({ version, supervisor: evidence })
      const answer = await service.call(`instances/${settings.instanceId}/ack`, { body, timeoutMs: pace.request })
      if (isPassing(answer) && !isSuccess(answer)) return
      const isUnchanged = (await enforcer?.apply()) === evidence
      if (isUnchanged && version === killSwitch.version) this.#acknowledged = version
    }
  }

  /** Acknowledges the applied version again if the evidence has changed. Resolves when nothing is left to send. */
  async renew(): Promise<void> {
    this.#acknowledged = 0
    await this.#acknowledge()
  }

  /**
   * Answers drills one at a time, so that a flood of them causes no flood of requests. A failed answer is not reported
   * to the agent.
   */
  async #answerDrill(nonce: string): Promise<void> {
    this.#drills = [...this.#drills.slice(0, 1), nonce]
    if (this.#drills.length > 1) return
    const { service, settings, pace, enforcer } = this.#options
    for (; this.#drills.length > 0; this.#drills.shift()) {
      const body = JSON.stringify({ nonce: this.#drills[0], supervisor: enforcer?.check() })
      await service.call(`instances/${settings.instanceId}/drill`, { body, timeoutMs: pace.request })
    }
  }

  #judge(where: string, answer: Answer): void {
    const { faults, service } = this.#options
    if (isSuccess(answer)) {
      faults.clear(where)
      faults.clear('contact')
    } else if (answer.status === 0 && answer.fault !== unsigned) faults.raise('contact', service.explain(answer))
    else faults.raise(where, service.explain(answer))
  }
}

const noVersion = new MonitorError(
  'unexpected',
  'The answer to a poll of the kill switch has no version. Either url belongs to another service, or a proxy removes the header ETag.',
)

const olderState = (received: number, applied: number | undefined) =>
  new MonitorError(
    'unexpected',
    `The service is at control version ${received}, but this agent has applied ${applied}: the database may be an older copy. Kill and resume it until the version is higher, or remove the stateFile and restart the agent.`,
  )
