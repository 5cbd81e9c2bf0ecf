import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take longer than half a minute, by project, the longest first. */
const longest = [
  'e2e-packages e2e/packages/packages.test.ts',
  'e2e-cluster e2e/cluster/migrate-database.test.ts',
  'e2e-browser e2e/browser/containments.test.ts',
  'unit-servers packages/server/src/db/postgres.test.ts',
  'e2e-chain e2e/chain/chain.test.ts',
  'e2e-browser e2e/browser/live.test.ts',
  'unit-long packages/sdk/src/agent/hook-faults.test.ts',
  'e2e-browser e2e/browser/screens.test.ts',
  'e2e-cluster e2e/cluster/degraded.test.ts',
  'e2e-packages e2e/packages/documents.test.ts',
  'e2e-browser e2e/browser/kit.test.ts',
  'e2e-cluster e2e/cluster/failover.test.ts',
  'e2e-packages e2e/packages/python.test.ts',
  'e2e-browser e2e/browser/hostile.test.ts',
  'e2e-browser e2e/browser/memory.test.ts',
  'e2e-cluster e2e/cluster/start.test.ts',
  'e2e-starts e2e/cli.test.ts',
  'e2e-starts e2e/trust.test.ts',
  'unit-long packages/sdk/src/control-link.test.ts',
  'tidy tools/configured-rules.test.ts',
  'e2e-starts e2e/rules.test.ts',
  'e2e-starts e2e/start-faults.test.ts',
  'e2e-starts e2e/simulate.test.ts',
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
