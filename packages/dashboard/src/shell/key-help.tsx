import { Button } from '../ui/button.tsx'
import { Dialog, DialogFoot } from '../ui/dialog.tsx'
import { commandKey } from '../ui/shortcuts.ts'
import { places, wallboard } from './places.ts'
import css from './shell.module.css'

const keys: [key: string, what: string][] = [
  [`${commandKey}K`, 'search agents, alerts, rules, decoys, events, settings, pages and actions'],
  ...places.map(({ key, name }): [string, string] => [`g ${key}`, `open ${name}`]),
  [`g ${wallboard.key}`, 'open the wallboard in full screen; Esc leaves it'],
  ['/', 'go to the filter'],
  ['j k', 'next and previous row'],
  ['Enter', 'open the row'],
  ['x', 'select the row'],
  ['n', 'plant a decoy, new rule, create a key'],
  ['s', 'suspend the row, the selected agents or the agent that is open'],
  ['a', 'acknowledge the marked item of the overview, or the marked or selected alerts'],
  ['p', 'pause live events'],
  ['v', 'verify the audit log'],
  ['← →', 'move in a chart; with Shift select a range, Enter zooms'],
  ['t', 'switch between local time and UTC'],
  ['?', 'show the shortcuts'],
  ['Esc', 'close, or clear the selection'],
]

export function KeyHelp({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Shortcuts" onClose={onClose}>
      {/* It scrolls, so it gets the focus first: the button below would scroll the title out of sight. */}
      <div className={css.keys} role="group" aria-label="Keys" tabIndex={0}>
        <table>
          <tbody>
            {keys.map(([key, what]) => (
              <tr key={key}>
                <td>
                  <kbd>{key}</kbd>
                </td>
                <td>{what}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <DialogFoot>
        <Button onClick={onClose} shortcut="Esc">
          Close
        </Button>
      </DialogFoot>
    </Dialog>
  )
}
