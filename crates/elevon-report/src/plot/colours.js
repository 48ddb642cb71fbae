// The colour of a share from 0 to 1: red, green and blue.
function heatColour(share) {
  const last = HEAT_STEPS.length - 1, at = Math.min(Math.max(share, 0), 1) * last, step = Math.min(Math.floor(at), last - 1);
  return HEAT_STEPS[step].map((part, i) => Math.round(part + (HEAT_STEPS[step + 1][i] - part) * (at - step)));
}
// Draws a bar of the colours in the top right corner of a canvas, between the texts of its ends.
function heatScale(context, width, colour, [least, most, unit]) {
  const wide = Math.min(90, width / 5), right = width - 2 - context.measureText(most + ' ' + unit).width - 4;
  for (let x = 0; x < wide; x++) {
    context.fillStyle = `rgb(${heatColour(x / (wide - 1)).join()})`;
    context.fillRect(right - wide + x, 2, 1.5, 9);
  }
  context.fillStyle = colour;
  context.fillText(least, right - wide - context.measureText(least).width - 4, 11);
  context.fillText(most + ' ' + unit, right + 4, 11);
}
