SELECT DISTINCT settings || ', ' || machine AS settings, psnr_floor AS psnr, ssim_floor AS ssim
FROM summary WHERE psnr_floor IS NOT NULL OR ssim_floor IS NOT NULL
