import './style.css';
import { render } from 'preact';
import { prepare, start } from './state';
import { readTheme } from './theme';
import { App } from './views/App';

readTheme();
void prepare().then(() => {
  render(<App />, document.getElementById('app')!);
  void start();
});
