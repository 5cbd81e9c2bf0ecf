import { type Check, ok, skip, warn } from './check.ts'
import { runStatus } from './hook-run.ts'
import { installedAgents, isFault } from './hooks.ts'

type Tool = Exclude<ReturnType<typeof installedAgents>[number], { fault: Check }>['tool']

interface Verified {
  /** Prints its version with `--version`. */
  program: string
  /** With which the hook was tried, with a stand-in for its model; undefined: its form is only documented. */
  version?: string
  /** Whether a subagent was tried as well. */
  subagents?: boolean
}

/** The guide names the same versions: docs/guide/coding-agents.md. */
export const verifiedVersions: Record<Tool, Verified> = {
  'claude-code': { program: 'claude' },
  codex: { program: 'codex' },
  cursor: { program: 'cursor-agent' },
  'gemini-cli': { program: 'gemini', version: '0.61.0' },
  'copilot-cli': { program: 'copilot', version: '1.0.102', subagents: true },
  opencode: { program: 'opencode', version: '1.18.33', subagents: true },
  openclaw: { program: 'openclaw', version: '2026.9.6', subagents: true },
}

/** Judges a version, of which a hook without a model cannot show that it also runs in subagents. */
function judgeVersion(product: string, { version, subagents }: Verified, installed: string | undefined): Check {
  const name = `version of ${product}`
  if (installed === undefined) return skip(name, 'Its program does not tell its version here.')
  const fix = 'Let a subagent make a call that a policy denies, and look for it in the events.'
  if (version === undefined) {
    return warn(name, `${installed}: that hooks run, also in subagents, is documented and was not tried.`, fix)
  }
  if (installed !== version) {
    return warn(name, `${installed}: the hook was tried with ${version}, not with this version.`, fix)
  }
  if (!subagents) return warn(name, `${installed}: the hook was tried with this version, but not in subagents.`, fix)
  return ok(name, `${installed}: the hook was tried with this version, also in subagents.`)
}

/** Says of each coding agent with a hook whether the hook was tried with the installed version. */
export async function checkVersions(...from: Parameters<typeof installedAgents>): Promise<Check[]> {
  const [, env = process.env] = from
  const checks: Check[] = []
  for (const found of installedAgents(...from)) {
    if (isFault(found) || found.hooks.length === 0) continue
    const verified = verifiedVersions[found.tool]
    const { exitCode, stdout } = await runStatus(`${verified.program} --version`, env)
    const installed = exitCode === 0 ? /\d+(?:\.\d+)+/.exec(stdout)?.[0] : undefined
    checks.push(judgeVersion(found.product, verified, installed))
  }
  return checks
}
