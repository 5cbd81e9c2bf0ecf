import { type Ended, listen } from './control-stream.ts'
import type { DecoyChecks } from './decoy-checks.ts'
import { readDrill } from './drill.ts'
import { MonitorError } from './faults.ts'
import type { KillSwitch } from './kill-switch.ts'
import type { Settings } from './options.ts'
import { backoff, jittered, type Pace } from './pace.ts'
import { Repeat } from './repeat.ts'
import { type Answer, isPassing, isRefused, isSuccess, noAnswer, type Service, unsigned } from './service.ts'
import { openTextVerifier, openVerifier, signedAnswer, type VerifyText } from './signed-control.ts'
import type { Troubles } from './troubles.ts'
import { type ControlState, type Heartbeat, stateFromPoll, stateFromStream, type Verify } from './wire.ts'

interface ControlLinkOptions {
  service: Service
  troubles: Troubles
  settings: Settings
  pace: Pace
  killSwitch: KillSwitch
  decoys: DecoyChecks
  /** Called when the stored active state has a higher version than a suspension by the service. */
  onMismatch(applied: number, received: number): void
}

/**
 * Receives kills and resumes, and sends heartbeats. It always uses both a stream and polls: a stream may hang unnoticed,
 * and a poll comes late.
 */
export class ControlLink {
  readonly #options: ControlLinkOptions
  readonly #verifier: Promise<Verify | undefined>
  readonly #drillVerifier: Promise<VerifyText | undefined>
  readonly #bootId = crypto.randomUUID()
  #isStreamOpen = false
  #missedBeats = 0
  /** Response to the pending or last heartbeat. */
  #beating: Promise<Answer> | undefined
  #lostStreams = 0
  #polling: Repeat | undefined
  /** Version of a suspension in the last poll that contradicts the known state. */
  #contradicting: number | undefined
  /** Last version that was acknowledged to the service. */
  #acknowledged = 0
  #isAcknowledging = false
  /** Nonces to answer: the one being answered, and the latest one received since. */
  #drills: string[] = []

  constructor(options: ControlLinkOptions) {
    this.#options = options
    this.#verifier = openVerifier(options.settings.publicKey, options.settings.instanceId)
    this.#drillVerifier = openTextVerifier(options.settings.publicKey)
  }

  get isStreamOpen(): boolean {
    return this.#isStreamOpen
  }

  /** Sends one heartbeat and polls once; resolves with whether the service returned the state. */
  async ask(): Promise<boolean> {
    const [, answer] = await Promise.all([this.#beat(), this.#poll()])
    // The first heartbeat registers the instance; before it a poll gets 404.
    return isSuccess(answer.status === 404 ? await this.#poll() : answer)
  }

  /** Polls and listens until the signal aborts. */
  follow(signal: AbortSignal): void {
    const { pace } = this.#options
    new Repeat(() => this.#keepBeating(), jittered(pace.heartbeat), signal)
    this.#polling = new Repeat(() => this.#keepPolling(), jittered(pace.pollWithoutStream), signal)
    new Repeat(() => this.#keepListening(signal), 0, signal)
  }

  /** Signs the agent off at a service that knows it, so that its silence is not reported as an outage. */
  async leave(): Promise<void> {
    const last = await this.#beating
    if (last && isSuccess(last)) await this.#send(true)
  }

  #beat(): Promise<Answer> {
    this.#beating = this.#send(false)
    return this.#beating
  }

  async #send(leaving: boolean): Promise<Answer> {
    const { service, pace, settings, killSwitch, decoys } = this.#options
    const heartbeat: Heartbeat = {
      instance_id: settings.instanceId,
      name: settings.name,
      agent_type: settings.agentType,
      version: settings.version,
      fail_mode: settings.failMode,
      boot_id: this.#bootId,
      tags: settings.tags && [...settings.tags],
      control_version: killSwitch.version,
      ...(leaving ? { leaving } : {}),
    }
    const answer = await service.call('heartbeat', { body: JSON.stringify(heartbeat), timeoutMs: pace.request })
    decoys.learn(answer)
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

  async #poll(): Promise<Answer> {
    const { service, pace, settings, killSwitch, decoys } = this.#options
    const verify = await this.#verifier
    const { version, isConfirmed, controlState: known } = killSwitch
    const given = await service.call(`instances/${settings.instanceId}/status`, {
      // A state that was only read from the file may differ from that of the service.
      headers: isConfirmed ? { 'if-none-match': `W/"${version}"` } : {},
      timeoutMs: pace.request,
    })
    const answer = signedAnswer(given, verify, known)
    decoys.learn(answer)
    // An unknown instance is registered by the next heartbeat.
    if (answer.status !== 404) this.#judge('poll', answer)
    if (answer.status === 304 && isConfirmed) this.#confirm()
    if (answer.status === 200) {
      const received = stateFromPoll(answer.body, answer.header('etag'))
      if (!received) this.#options.troubles.meet('etag', noVersion)
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

  /** Holds one connection to the control stream; resolves with the milliseconds until the next one. */
  async #keepListening(signal: AbortSignal): Promise<number> {
    const { service, settings, pace, troubles } = this.#options
    const { instanceId } = settings
    const [verify, verifyDrill] = await Promise.all([this.#verifier, this.#drillVerifier])
    const startedAt = performance.now()
    const ended = await listen({
      service,
      path: `instances/${instanceId}/control?understands=drill`,
      pace,
      signal,
      onData: (text) => {
        const { isDrill, nonce } = readDrill(text, instanceId, verifyDrill)
        if (nonce !== undefined) void this.#answerDrill(nonce)
        if (isDrill) return
        const received = stateFromStream(text, instanceId, verify)
        if (!received) return
        this.#isStreamOpen = received !== 'unsigned'
        if (received === 'unsigned') {
          troubles.meet('stream signature', service.explain(noAnswer(unsigned)))
          // An invalid message may hide a kill.
          this.#polling?.within(jittered(pace.pollWithoutStream))
          return
        }
        troubles.over('stream')
        troubles.over('stream signature')
        this.#take(received)
        // The message may be late and outdated; a poll gets the current state.
        if (this.#options.killSwitch.contradicts(received)) this.#polling?.within(jittered(pace.pollWithoutStream))
      },
      onAlive: () => {
        // Keep-alives are not signed, so they confirm nothing if signatures are required.
        if (this.#isStreamOpen && !verify) this.#confirm()
      },
    })
    const wasOpen = this.#isStreamOpen
    this.#isStreamOpen = false
    if (signal.aborted) return Number.POSITIVE_INFINITY
    this.#polling?.within(jittered(pace.pollWithoutStream))
    return this.#reconnectAfter(ended, wasOpen, performance.now() - startedAt)
  }

  #reconnectAfter(ended: Ended, wasOpen: boolean, lastedMs: number): number {
    const { pace, troubles, service } = this.#options
    if (isRefused(ended)) {
      troubles.meet('stream', service.explain(ended))
      return jittered(pace.refused)
    }
    // Reset the backoff only after a stream that lasted: a proxy may cut streams right after they open.
    if (wasOpen && lastedMs > pace.streamSilence / 2) this.#lostStreams = 0
    return Math.max(ended.retryMs ?? 0, backoff(pace, this.#lostStreams++))
  }

  /** Whether the state was signed before the last one received: a replayed message, which does not count as contact. */
  #isReplay({ version }: ControlState): boolean {
    const { settings, killSwitch } = this.#options
    const isLive = settings.publicKey !== undefined && killSwitch.isConfirmed
    return isLive && version < (killSwitch.version ?? 0)
  }

  #take(received: ControlState): void {
    const { killSwitch, troubles } = this.#options
    troubles.over('etag')
    if (this.#isReplay(received)) {
      troubles.meet('version', olderState(received.version, killSwitch.version))
      return
    }
    const news = killSwitch.take(received)
    this.#contradicting = undefined
    if (news === 'older') troubles.meet('version', olderState(received.version, killSwitch.version))
    else troubles.over('version')
    void this.#acknowledge()
  }

  /**
   * A "suspended" from the service takes precedence over the known state. One of its processes may receive a resume a
   * second after another, so a state confirmed by the service is replaced only if the next poll repeats the suspension.
   */
  #takeContradiction(received: ControlState): void {
    const { killSwitch, onMismatch, pace } = this.#options
    const { version = 0, isConfirmed } = killSwitch
    if (isConfirmed && this.#contradicting !== received.version) {
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

  #confirm(): void {
    this.#options.killSwitch.confirm()
    void this.#acknowledge()
  }

  /** Acknowledges the applied version. After a failure the next contact retries. */
  async #acknowledge(): Promise<void> {
    const { service, killSwitch, settings, pace } = this.#options
    const { version = 0 } = killSwitch
    if (version <= this.#acknowledged || this.#isAcknowledging) return
    this.#isAcknowledging = true
    const body = JSON.stringify({ version })
    const answer = await service.call(`instances/${settings.instanceId}/ack`, { body, timeoutMs: pace.request })
    this.#isAcknowledging = false
    if (isPassing(answer) && !isSuccess(answer)) return
    this.#acknowledged = version
    void this.#acknowledge()
  }

  /** Answers a drill; failures are ignored, since the service reports missing answers. One at a time, against floods. */
  async #answerDrill(nonce: string): Promise<void> {
    this.#drills = [...this.#drills.slice(0, 1), nonce]
    if (this.#drills.length > 1) return
    const { service, settings, pace } = this.#options
    for (; this.#drills.length > 0; this.#drills.shift()) {
      const body = JSON.stringify({ nonce: this.#drills[0] })
      await service.call(`instances/${settings.instanceId}/drill`, { body, timeoutMs: pace.request })
    }
  }

  #judge(where: string, answer: Answer): void {
    const { troubles, service } = this.#options
    if (isSuccess(answer)) {
      troubles.over(where)
      troubles.over('contact')
    } else if (answer.status === 0 && answer.fault !== unsigned) troubles.meet('contact', service.explain(answer))
    else troubles.meet(where, service.explain(answer))
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
