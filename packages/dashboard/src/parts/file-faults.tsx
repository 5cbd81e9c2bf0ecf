import { counted } from '@wardline/text/counted'
import { HostileText } from '../ui/hostile-text.tsx'
import { Panel } from '../ui/panel.tsx'

/** Files of a folder of documents that are not used, and why. */
export function FileFaults({ faults }: { faults: readonly { file: string; error: string }[] }) {
  if (faults.length === 0) return null
  return (
    <Panel title={<span className="critical">{counted(faults.length, 'file')} not loaded</span>}>
      <ul className="inner">
        {faults.map(({ file, error }) => (
          <li key={file}>
            <b className="mono">
              <HostileText text={file} max={200} />
            </b>{' '}
            <HostileText text={error} max={600} />
          </li>
        ))}
      </ul>
    </Panel>
  )
}
