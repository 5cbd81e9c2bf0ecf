import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take longer than half a minute, by project, the longest first. */
const longest = [
  'e2e-packages e2e/packages/documents.test.ts',
  'e2e-packages e2e/packages/packages.test.ts',
  'e2e-packages e2e/packages/python.test.ts',
  'e2e-cluster e2e/cluster/migrate-database.test.ts',
  'e2e-chaos e2e/chaos/socket-fuzz.test.ts',
  'unit-postgres packages/server/src/features/alerts/delivery/dispatcher.test.ts',
  'e2e-packages e2e/packages/examples.test.ts',
  'e2e-cluster e2e/cluster/degraded.test.ts',
  'e2e-chaos e2e/chaos/slow-sockets.test.ts',
  'e2e-cluster e2e/cluster/alerts.test.ts',
  'unit-postgres packages/server/src/features/events/forged-reports.test.ts',
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
