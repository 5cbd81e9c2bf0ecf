import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take longer than half a minute, by project, the longest first. */
const longest = [
  'e2e-packages e2e/packages/packages.test.ts',
  'unit-servers packages/server/src/db/postgres.test.ts',
  'e2e-cluster e2e/cluster/migrate-database.test.ts',
  'e2e-packages e2e/packages/documents.test.ts',
  'e2e-packages e2e/packages/python.test.ts',
  'e2e-browser e2e/browser/live.test.ts',
  'e2e-browser e2e/browser/containments.test.ts',
  'e2e-browser e2e/browser/screens.test.ts',
  'e2e-chain e2e/chain/chain.test.ts',
  'e2e-cluster e2e/cluster/degraded.test.ts',
  'e2e e2e/cli.test.ts',
  'e2e-browser e2e/browser/trust.test.ts',
  'e2e e2e/drills.test.ts',
  'unit packages/sdk/src/drill.test.ts',
  'unit-long packages/server/src/mutated-bodies.test.ts',
  'e2e e2e/trust.test.ts',
  'e2e e2e/stream.test.ts',
  'e2e-chaos e2e/chaos/faults.test.ts',
  'e2e-chaos e2e/chaos/slow-sockets.test.ts',
  'e2e-browser e2e/browser/alerts.test.ts',
  'e2e-browser e2e/browser/connect.test.ts',
  'e2e-cluster e2e/cluster/start.test.ts',
  'e2e-browser e2e/browser/demo.test.ts',
  'e2e-browser e2e/browser/overview.test.ts',
]

/** A long file that began last would keep one core busy and the others idle. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((one, other) => placeOf(one) - placeOf(other))
  }
}

function placeOf({ project, moduleId }: TestSpecification): number {
  const place = longest.findIndex((name) => {
    const [projectName, path = ''] = name.split(' ')
    return project.name === projectName && moduleId.endsWith(`/${path}`)
  })
  return place === -1 ? longest.length : place
}
