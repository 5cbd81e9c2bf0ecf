import { Argument, type Command } from 'commander'
import { completionScripts, type Shell, shells } from './completion-scripts.ts'
import { completionTree } from './completion-tree.ts'

/** Added last: it describes the commands that are there when it runs. */
export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes commands and options, such as: source <(wardline completion bash)')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .action((shell: Shell) => {
      process.stdout.write(completionScripts[shell](completionTree(program)))
    })
}
