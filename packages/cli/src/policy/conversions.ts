import { existsSync } from 'node:fs'
import { loadPolicyFiles } from '@wardline/server'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { withService } from '../service/options.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { exportClaudeCode, importClaudeCode } from './claude-code.ts'
import { importCodexRules } from './codex-rules.ts'
import { faultLine, notReadable, readPolicyFile, readText } from './files.ts'
import type { Imported } from './imported.ts'
import { importOpenCode } from './opencode.ts'
import { readStored } from './stored.ts'

/** Prints notes to standard error, so that standard output has only the result and may be redirected to a file. */
function printNotes(notes: readonly string[]): void {
  for (const note of notes) console.error(`-- ${sanitize(note)}`)
}

function importFrom(file: string, text: string): Imported {
  if (/\bprefix_rule\s*\(/.test(text)) return importCodexRules(text)!
  let settings: unknown
  try {
    settings = JSON.parse(text)
  } catch {
    throw notReadable(file, 'it is neither JSON nor has it lines with prefix_rule(…).')
  }
  const imported = importClaudeCode(settings) ?? importOpenCode(settings)
  if (imported) return imported
  throw notReadable(
    file,
    'it has neither permissions, as settings.json of Claude Code, nor permission, as opencode.json.',
  )
}

async function importSettings(file: string): Promise<void> {
  const imported = importFrom(file, readText(file))
  const { stringify } = await import('yaml')
  const text = stringify(imported.document, { lineWidth: 0 })
  const { lintText } = await loadPolicyFiles()
  // What was imported may contradict itself, such as a tool that is allowed and denied.
  for (const fault of lintText(text, [], Date.now()).faults) console.error(faultLine('imported', fault))
  printNotes(imported.notes)
  process.stdout.write(text)
}

async function exportPolicy(given: string, flags: ServiceFlags): Promise<void> {
  const policy = existsSync(given)
    ? await readPolicyFile({ policy: given })
    : (await loadPolicyFiles()).lintText(await readStored(given, flags), [], Date.now()).policy!
  const { settings, notes } = exportClaudeCode(policy)
  printNotes(notes)
  console.log(safeJson(settings, 2))
}

/** Adds the commands that convert policies from and to the permissions of coding agents. */
export function addConversions(policy: Command): void {
  policy
    .command('import')
    .description(
      'print a policy made of the permissions of Claude Code, OpenCode or Codex, and what they say otherwise',
    )
    .argument('<file>', 'settings.json of Claude Code, opencode.json, or .rules of Codex')
    .action(importSettings)
  withService(
    policy
      .command('export')
      .description('print a policy as settings of a coding agent, and what these cannot say')
      .argument('<policy>', 'file, or id or title of a stored policy')
      .addOption(new Option('--to <format>', 'form of the settings').choices(['claude-code']).makeOptionMandatory()),
  ).action(exportPolicy)
}
