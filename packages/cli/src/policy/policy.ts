import { guessLabels, packs, readLabels } from '@wardline/policy'
import { loadPolicyFiles } from '@wardline/server'
import { counted, safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { conclude, show } from '../doctor/check.ts'
import { checkPolicySetup } from '../doctor/policy-setup.ts'
import { exitCodes } from '../exit.ts'
import { addPolicyBacktest } from './backtest.ts'
import { addConversions } from './conversions.ts'
import { faultLine, readTools, readWithLabels } from './files.ts'
import { replay } from './replay.ts'
import { addStoredPolicies } from './stored.ts'

interface LintOptions {
  tools?: string
  json?: boolean
}

async function lint(file: string, { tools, json }: LintOptions): Promise<void> {
  const { lintText } = await loadPolicyFiles()
  const listed = await readTools(tools)
  const { text, faults: unread } = await readWithLabels(file)
  const { policy, faults } = unread.length > 0 ? { faults: unread } : lintText(text, listed, Date.now())
  if (faults.length > 0) process.exitCode = exitCodes.failed
  if (json) return console.log(safeJson({ faults }, 2))
  for (const fault of faults) console.log(faultLine(file, fault))
  if (policy && faults.length === 0) {
    console.error(`-- ${counted(policy.rules.length, 'rule')}, flow ${policy.flow}, no faults`)
  }
}

/** Prints the labels of tools in the form in which a policy writes them, as a file to begin with. */
async function labels(toolFile: string): Promise<void> {
  const { stringify } = await import('yaml')
  const known = readLabels(Object.keys(packs)).labels
  const listed = (await readTools(toolFile)).map((tool) => {
    const { is, destination, when } = known.get(tool.name.toLowerCase()) ?? guessLabels(tool)
    const conditions = Object.keys(when).length > 0 ? { when } : {}
    return [sanitize(tool.name), { is, ...(destination.length > 0 ? { destination } : {}), ...conditions }] as const
  })
  process.stdout.write(
    stringify(Object.fromEntries(listed), { flowCollectionPadding: true, aliasDuplicateObjects: false }),
  )
}

async function checkSetup(options: { json?: boolean }): Promise<void> {
  const checks = await checkPolicySetup()
  if (!options.json) for (const check of checks) show(check)
  conclude(checks, options)
}

export function addPolicy(program: Command): void {
  const policy = program
    .command('policy')
    .description('decide on tool calls before they run: check, try, store and convert policies')
  policy
    .command('lint')
    .description(
      'check a policy: faults as file:line:column, also cases that do not hold, rules that never decide, arguments that no tool has',
    )
    .argument('<file>', 'policy, YAML or JSON')
    .option('--tools <file>', 'what the servers answer to tools/list')
    .option('--json', 'print JSON')
    .action(lint)
  policy
    .command('replay')
    .description('print what a policy decides on recorded sessions, a line of JSON for each')
    .argument('<sessions>', 'lines of { id, prompt, calls: [{ tool, args, result }] }')
    .requiredOption('--policy <file>', 'policy, YAML or JSON')
    .option('--tools <file>', 'what the servers answer to tools/list: labels of tools that no other file names')
    .option('--labels <file>', 'labels of tools; they win over those of the policy')
    .addOption(
      new Option(
        '--stop-on <decision>',
        'end a session at the first such decision (default: each ask counts as granted)',
      ).choices(['ask', 'deny']),
    )
    .action(replay)
  policy
    .command('labels')
    .description('print labels for tools, from the packs and else guessed, to review: a file that a policy can name')
    .argument('<tools>', 'what the servers answer to tools/list')
    .action(labels)
  policy
    .command('check-setup')
    .description('check whether the coding agents of this user enforce policies: runs their hooks with harmless calls')
    .option('--json', 'print JSON')
    .action(checkSetup)
  addStoredPolicies(policy)
  addPolicyBacktest(policy)
  addConversions(policy)
}
