import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Monitor } from '../monitor.ts'
import { agentId, eventually, TestFleet } from './service.ts'

/** Result of one turn of an agent whose model calls a tool with `{ path }` once. */
interface Turn {
  /** Paths that the tool ran with. */
  ran: string[]
  /** Result of the call as the model reads it; a denial is an object or JSON. */
  output: unknown
}

/** Body of the tool that is called in every turn. */
export function readFile(path: string): string {
  if (path === 'missing.txt') throw new Error('there is no such file')
  return `the content of ${path}`
}

const check = /\/check\//
export const readDenial = (output: unknown): unknown => (typeof output === 'string' ? JSON.parse(output) : output)
export const denied = (reason: unknown) => ({ denied: true, reason, retryable: false })

/** Opens a fleet with an active and a suspended agent. */
export async function openTwoMonitors(): Promise<{ fleet: TestFleet; active: Monitor; suspended: Monitor }> {
  const fleet = await TestFleet.open()
  const active = fleet.monitor({ instanceId: 'active', key: await fleet.createKey(['active']) }).monitor
  const suspended = fleet.monitor().monitor
  await Promise.all([active.start(), suspended.start()])
  // On a busy machine the first contact may come after start() has given up waiting.
  await eventually(() => expect(suspended.health.controlVersion).toBeDefined())
  await fleet.kill('test')
  await eventually(() => expect(suspended.suspended).toBe(true))
  return { fleet, active, suspended }
}

/** Tests that apply to every adapter, with the real framework and the real service. */
export function describeAdapter(
  framework: string,
  takeTurn: (monitor: Monitor, path: string) => Promise<Turn>,
  /** Name of the tool in the framework. */
  toolName = 'file-read',
  /** What the model answers after the call, where the adapter sees it. */
  answer?: string,
  /** Whether the adapter sees the prompt, which is "read it". */
  seesPrompt = false,
): void {
  describe(`with ${framework}`, () => {
    let fleet: TestFleet
    let monitor: Monitor
    beforeAll(async () => {
      fleet = await TestFleet.open()
      monitor = fleet.monitor().monitor
      await monitor.start()
    })
    afterAll(() => fleet[Symbol.asyncDispose]())

    const calls = async () => {
      await monitor.flush()
      return fleet.events('tool_call')
    }

    if (answer !== undefined)
      test('reports the answer once, and its text only where that is switched on', async () => {
        const withText = fleet.monitor({ resultText: true }).monitor
        await takeTurn(withText, 'notes.txt')
        await takeTurn(monitor, 'notes.txt')
        await Promise.all([withText.flush(), calls()])
        const [bare, shown, ...others] = (await fleet.events('model_answer')).map(({ metadata }) => metadata?.result)
        expect(shown).toEqual({ ...(bare as object), text: answer })
        expect(bare).toEqual({ length: answer.length, hash: expect.stringMatching(/^[0-9a-f]{32}$/) })
        expect(others).toEqual([])
      })

    // MCP passes no id of the model's call on.
    const callId = framework.includes('MCP') ? undefined : expect.any(String)

    test('runs an allowed call and reports it, with the id that the model gave it', async () => {
      const { ran, output } = await takeTurn(monitor, 'notes.txt')
      expect(ran).toEqual(['notes.txt'])
      expect(JSON.stringify(output)).toContain('the content of notes.txt')
      expect((await calls())[0]).toMatchObject({
        severity: 'info',
        instance_id: agentId,
        metadata: { toolName, ok: true, durationMs: expect.any(Number), params: { path: 'notes.txt' } },
      })
      expect((await calls())[0]!.metadata?.callId).toEqual(callId)
    })

    test('reports that a tool failed', async () => {
      const before = await calls()
      // The framework decides what to do with the error.
      const { ran } = await takeTurn(monitor, 'missing.txt').catch(() => ({ ran: ['missing.txt'] }))
      expect(ran).toEqual(['missing.txt'])
      const after = await calls()
      expect(after).toHaveLength(before.length + 1)
      expect(after[0]).toMatchObject({ metadata: { toolName, ok: false } })
    })

    // Otherwise an attacker who steers the model could continue with the tools that it already has.
    test('denies the calls of a suspended agent without running them', async () => {
      const before = await calls()
      await fleet.kill('exfiltration')
      await eventually(() => expect(monitor.suspended).toBe(true))
      const { ran, output } = await takeTurn(monitor, 'notes.txt')
      await fleet.resume()
      await eventually(() => expect(monitor.suspended).toBe(false))
      expect(ran).toEqual([])
      const reason = 'This agent is suspended (exfiltration). It must stop here and not retry.'
      expect(readDenial(output)).toEqual(denied(reason))
      expect(await calls()).toHaveLength(before.length)
      expect((await takeTurn(monitor, 'notes.txt')).ran).toEqual(['notes.txt'])
    })

    // A decoy's value in a report would be readable in the event stream, which may be open. A denial that names the
    // decoy would show an attacker who steers the model what to avoid.
    test('denies a call with a decoy in an argument, and reveals its value nowhere', async () => {
      const decoy = await fleet.plantKey('openai')
      await monitor.refresh()
      const before = [await calls(), await fleet.events('honeypot_triggered')]
      fleet.wire.sent = ''
      const { ran, output } = await takeTurn(monitor, `https://files.example/?token=${decoy}`)
      expect(ran).toEqual([])
      expect(readDenial(output)).toEqual(denied(expect.not.stringMatching(/decoy|honeypot/i)))
      const after = [await calls(), await fleet.events('honeypot_triggered')]
      expect(after.map(({ length }) => length)).toEqual([before[0]!.length, before[1]!.length + 1])
      expect(after[1]![0]).toMatchObject({ severity: 'breach', metadata: { tool: toolName } })
      // Only the check itself contains the decoy.
      const others = fleet.wire.sent.split(/^(?=POST )/m).filter((request) => !check.test(request.split('\n', 1)[0]!))
      expect(others.join()).not.toContain(decoy)
      expect(JSON.stringify([output, after])).not.toContain(decoy)
    })

    test('denies what a policy denies, and asks a person where it says so', async () => {
      const match = { tool: toolName }
      const rules = [
        { title: 'Never', decision: 'deny', match, when: { path: 'never.txt' } },
        { title: 'Ask first', decision: 'ask', match, when: { path: 'ask.txt' } },
      ]
      const { id } = await fleet.addPolicy({ title: 'Files', rules })
      await monitor.refresh()
      const denial = await takeTurn(monitor, 'never.txt')
      expect(denial.ran).toEqual([])
      expect(readDenial(denial.output)).toEqual(
        denied('The policy of this agent denies this call (Never). Do not retry it.'),
      )
      await monitor.flush()
      expect((await fleet.events('tool_blocked'))[0]!.metadata?.callId).toEqual(callId)
      const approved = takeTurn(monitor, 'ask.txt')
      await fleet.decide((await fleet.pendingApproval()).id, 'approve')
      expect((await approved).ran).toEqual(['ask.txt'])
      const refused = takeTurn(monitor, 'ask.txt')
      await fleet.decide((await fleet.pendingApproval()).id, 'deny')
      expect((await refused).ran).toEqual([])
      expect((await takeTurn(monitor, 'notes.txt')).ran).toEqual(['notes.txt'])
      await fleet.removePolicy(id)
      await monitor.refresh()
    })

    if (seesPrompt)
      test('knows what the prompt names, and nothing else', async () => {
        const labels = { [toolName]: { is: ['untrusted', 'sends'], destination: ['path'] } }
        const { id } = await fleet.addPolicy({ title: 'Flow', flow: 'default', labels })
        await monitor.refresh()
        // The tool has answered before.
        expect((await takeTurn(monitor, 'it')).ran).toEqual(['it'])
        const asked = takeTurn(monitor, 'elsewhere')
        await fleet.decide((await fleet.pendingApproval()).id, 'deny')
        expect((await asked).ran).toEqual([])
        await fleet.removePolicy(id)
        await monitor.refresh()
      })

    // The service refuses such a text, and a refused check must not let the call through.
    test('denies a call with a decoy that is split by NUL or a lone surrogate', async () => {
      const decoy = await fleet.plantKey('openai')
      await monitor.refresh()
      for (const sign of ['\0', '\ud800']) {
        const { ran } = await takeTurn(monitor, `token=${decoy.slice(0, 9)}${sign}${decoy.slice(9)}`)
        expect(ran).toEqual([])
      }
    })
  })
}
