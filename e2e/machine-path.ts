import { delimiter } from 'node:path'

/** PATH as in a shell of the machine, without the Node of this repository, which `npx` adds. */
export const machinePath = (process.env.PATH ?? '')
  .split(delimiter)
  .filter((folder) => !folder.includes('node_modules'))
  .join(delimiter)
