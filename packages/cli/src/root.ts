import { Command } from 'commander'
import { version } from './version.ts'

/** The command `wardline` without a command yet. What is set here passes on to each that is added. */
export function createRoot(asJson = false): Command {
  const root = new Command('wardline').description('Security monitor for fleets of AI agents').version(version)
  root.exitOverride()
  // For programs the fault follows as JSON, and nothing else may stand on that stream.
  if (asJson) root.configureOutput({ writeErr: () => {} })
  else root.showHelpAfterError()
  return root
}
