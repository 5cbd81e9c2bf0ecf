import { delimiter } from 'node:path'

/** PATH without the Node of this repository, as in a shell of the machine. `npx` finds that Node. */
export const machinePath = (process.env.PATH ?? '')
  .split(delimiter)
  .filter((folder) => !folder.includes('node_modules'))
  .join(delimiter)
