import { type Ended, listen } from './control-stream.ts'
import type { DecoyChecks } from './decoy-checks.ts'
import { MonitorError } from './faults.ts'
import type { KillSwitch } from './kill-switch.ts'
import type { Settings } from './options.ts'
import { backoff, jittered, type Pace } from './pace.ts'
import { Repeat } from './repeat.ts'
import { type Answer, isPassing, isRefused, isSuccess, type Service } from './service.ts'
import type { Troubles } from './troubles.ts'
import { type Heartbeat, type Told, toldByPoll, toldByStream } from './wire.ts'

export interface ControlLinkOptions {
  service: Service
  troubles: Troubles
  settings: Settings
  pace: Pace
  killSwitch: KillSwitch
  decoys: DecoyChecks
}

/**
 * Hears of kills and resumes, and says that the agent lives. Both by push and by poll, always: a stream may hang
 * unnoticed, and a poll comes late.
 */
export class ControlLink {
  readonly #options: ControlLinkOptions
  readonly #bootId = crypto.randomUUID()
  #isStreamOpen = false
  #missedBeats = 0
  #lostStreams = 0
  #polling: Repeat | undefined
  /** The version that the service knows to be applied. */
  #acknowledged = 0
  #isAcknowledging = false

  constructor(options: ControlLinkOptions) {
    this.#options = options
  }

  get isStreamOpen(): boolean {
    return this.#isStreamOpen
  }

  /** One heartbeat and one poll; whether the service told the state. */
  async ask(): Promise<boolean> {
    const [, answer] = await Promise.all([this.#beat(), this.#poll()])
    // Before the first heartbeat of an instance there is no state to ask for.
    return isSuccess(answer.status === 404 ? await this.#poll() : answer)
  }

  /** Keeps asking and listening until the signal aborts. */
  follow(signal: AbortSignal): void {
    const { pace } = this.#options
    new Repeat(() => this.#keepBeating(), jittered(pace.heartbeat), signal)
    this.#polling = new Repeat(() => this.#keepPolling(), jittered(pace.pollWithoutStream), signal)
    new Repeat(() => this.#keepListening(signal), 0, signal)
  }

  async #beat(): Promise<Answer> {
    const { service, pace, settings, killSwitch, decoys } = this.#options
    const heartbeat: Heartbeat = {
      instance_id: settings.instanceId,
      name: settings.name,
      agent_type: settings.agentType,
      version: settings.version,
      fail_mode: settings.failMode,
      boot_id: this.#bootId,
      control_version: killSwitch.version,
    }
    const answer = await service.call('heartbeat', { body: JSON.stringify(heartbeat), timeoutMs: pace.request })
    decoys.learn(answer)
    this.#judge('heartbeat', answer)
    if (isSuccess(answer)) this.#acknowledged = Math.max(this.#acknowledged, heartbeat.control_version ?? 0)
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
    const { version } = killSwitch
    const answer = await service.call(`instances/${settings.instanceId}/status`, {
      headers: version === undefined ? {} : { 'if-none-match': `W/"${version}"` },
      timeoutMs: pace.request,
    })
    decoys.learn(answer)
    // An instance that is not known yet is a matter for the next heartbeat.
    if (answer.status !== 404) this.#judge('poll', answer)
    if (answer.status === 304 && version !== undefined) this.#confirm()
    if (answer.status === 200) {
      const told = toldByPoll(answer.body, answer.header('etag'))
      if (told) this.#take(told)
      else this.#options.troubles.meet('etag', noVersion)
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

  /** One connection to the control stream; milliseconds until the next. */
  async #keepListening(signal: AbortSignal): Promise<number> {
    const { service, settings, pace } = this.#options
    const { instanceId } = settings
    const startedAt = performance.now()
    const ended = await listen({
      service,
      path: `instances/${instanceId}/control`,
      pace,
      signal,
      onData: (text) => {
        const told = toldByStream(text, instanceId)
        if (!told) return
        this.#isStreamOpen = true
        this.#options.troubles.over('stream')
        this.#take(told)
      },
      onAlive: () => {
        if (this.#isStreamOpen) this.#confirm()
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
    // One that ends as soon as it has begun, as behind a proxy that cuts streams, is not to be tried ever faster.
    if (wasOpen && lastedMs > pace.streamSilence / 2) this.#lostStreams = 0
    return Math.max(ended.retryMs ?? 0, backoff(pace, this.#lostStreams++))
  }

  #take(told: Told): void {
    const { killSwitch, troubles } = this.#options
    troubles.over('etag')
    const news = killSwitch.take(told)
    if (news === 'older') troubles.meet('version', olderState(told.version, killSwitch.version))
    else troubles.over('version')
    void this.#acknowledge()
  }

  #confirm(): void {
    this.#options.killSwitch.confirm()
    void this.#acknowledge()
  }

  /** Until the service has answered; otherwise the next contact tries again. */
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

  #judge(where: string, answer: Answer): void {
    const { troubles, service } = this.#options
    if (isSuccess(answer)) {
      troubles.over(where)
      troubles.over('contact')
    } else if (answer.status === 0) troubles.meet('contact', service.explain(answer))
    else troubles.meet(where, service.explain(answer))
  }
}

const noVersion = new MonitorError(
  'unexpected',
  'The answer to a poll of the kill switch has no version. Either url leads to something else, or a proxy takes the header ETag away.',
)

const olderState = (told: number, applied: number | undefined) =>
  new MonitorError(
    'unexpected',
    `The service knows control version ${told} only, this agent has applied ${applied}: the database may be an older copy. Kill and resume it until the version is higher, or remove the stateFile and restart the agent.`,
  )
